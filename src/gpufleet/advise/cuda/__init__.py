"""Images on disk, for ``gpufleet.cuda``: ``image_store`` opens what holds them, ``image_files`` reads one."""
