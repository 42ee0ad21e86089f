"""The status page: what `..control` knows of the broker, for people with a browser.

Read `pages` (which there are), `section` (what one is made of), `rendering` (how that becomes HTML, and
what of it has changed while somebody looks). Everything that changes something is a call of the admin listener, which the page's one script
makes; nothing here does.
"""
