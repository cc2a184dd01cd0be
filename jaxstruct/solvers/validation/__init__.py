"""`checks` of what a user gives; the other modules: that the functions of a problem agree."""
