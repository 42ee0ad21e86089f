"""Search for all that is left of some keys in data directories: where, why, and when it goes. Reads only.

Read in this order: `places` (the result, as data), `key_matches` (the records of the keys in a log file), `log_survey` (segments and
transactions of one log, from the headers of its batches), `record_fates` (why its records stay), `log_search` (one directory),
`search` (all directories), `report_page` (the result as HTML), `key_lines` (keys in a file).
"""
