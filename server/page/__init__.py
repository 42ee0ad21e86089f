"""The status page: what `..control` knows about the broker, for people with a browser.

Read `pages` (the list of pages), `section` (the parts of a page), `rendering` (from parts to HTML, and which of them
have changed during a watch). Everything that changes something is a call of the admin listener, made by the page's one
script; nothing here changes anything.
"""
