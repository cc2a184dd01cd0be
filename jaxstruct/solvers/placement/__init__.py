"""Where rows lie: on the devices of a mesh, of one process or of several."""
