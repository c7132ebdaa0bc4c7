"""Where in the cache numba keeps a compiled kernel: by its module, so that checkouts share what is equal.

By itself numba names the folder of a function after the path of its source file: each checkout, each virtual
environment and each image would compile for a minute what another one has. The cache is already named after
what kernels depend on (``compiled.sources_digest``), so the name of the module is enough.
"""

from numba.core.caching import UserProvidedCacheLocator

from gpufleet.engine.arrays.compiled import PACKAGE_FOLDER


class KernelFiles(UserProvidedCacheLocator):  # type: ignore[misc]
    """numba's own locator for a named cache, but with the module for the path."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """The folder of a source file's kernels within the cache; for files of others, that of numba."""
        # A path that is absolute stays as it is.
        path = PACKAGE_FOLDER / py_file
        if path.is_relative_to(PACKAGE_FOLDER):
            return ".".join(path.relative_to(PACKAGE_FOLDER).with_suffix("").parts)
        found: str = super().get_suitable_cache_subpath(py_file)
        return found
