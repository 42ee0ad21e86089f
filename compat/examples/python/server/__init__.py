"""The user's own package. Ottla is installed as `ottla`, whatever a project calls its own folders."""
