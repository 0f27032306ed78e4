"""The fleet: candidates measured on the devices of many machines, through Dask `distributed`."""
