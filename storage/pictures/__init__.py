"""Pictures of a log and of a pass over it: as data, as SVG and as text.

Read in this order: `log_picture` (the data, all of it), `capturing` (a log's, from what is in memory), `contents` (survivors and gaps,
from its files), `passes` (before and after of a pass, done or tried), `scale` (where things stand in a drawing), `log_svg`,
`pass_svg` (the drawings, pure functions), `legend` (what their marks mean, in words), `text` (for a terminal), `page` (HTML
that needs nothing else: notebooks, files). `picture.css` colours what has the class `ottla-picture`.
"""
