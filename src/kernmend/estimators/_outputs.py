"""What a fitted estimator gives out: words, a report, a file. Those who make them are called up, in the method."""

from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from kernmend.estimators import _summary
from kernmend.large import dask as lazy


class Outputs:
    """The summary, the report and the file of a fitted estimator."""

    def summary(self) -> str:
        """Return in plain words what was found, how clear it was, and what was chosen.

        Returns
        -------
        str
            A few lines of text.
        """
        check_is_fitted(self)
        names = getattr(self, "_row_names", None)
        return _summary.summary(lazy.gathered(self), str if names is None else lambda row: f"{row} · {names[row]}")

    def report_data(
        self, *, columns: Any = None, row_labels: Any = None, image_shape: Any = None, max_rows: int = 200
    ) -> dict[str, Any]:
        """Return what was found as plain facts (lists, numbers, text): what `report` shows, for pages of your own.

        After a fit to a dask array it is about the landmarks, which are in memory.

        Parameters
        ----------
        columns : sequence of str, optional
            Names of the columns; by default those of the DataFrame that `fit` saw.
        row_labels : sequence of str, optional
            Names of the rows; by default the index of the DataFrame that `fit` saw, or their numbers.
        image_shape : (height, width) or (height, width, 3), optional
            If the rows are flattened images.
        max_rows : int, default=200
            How many rows to give before and after, the worst first. Fewer where they would take over about 3 MB.

        Returns
        -------
        dict
            Lists, numbers and texts by name, which JSON can hold.
        """
        check_is_fitted(self)
        from kernmend.report import report_data

        est = lazy.of_landmarks(self)
        if row_labels is None:
            names = getattr(self, "_row_names", None)
            row_labels = names if est is self else [str(row) for row in est._landmark_rows]
        return report_data(est, columns=columns, row_labels=row_labels, image_shape=image_shape, max_rows=max_rows)

    def report(
        self,
        path: Any,
        *,
        columns: Any = None,
        row_labels: Any = None,
        image_shape: Any = None,
        max_rows: int = 200,
        title: str | None = None,
        force: bool = False,
    ) -> Path:
        """Write one self-contained HTML page that shows what was found and what was done; return its path.

        Nothing on the page is loaded from anywhere, so it can be sent and opened from disk.

        Parameters
        ----------
        path : str or Path
            Where to write it.
        columns, row_labels, image_shape, max_rows : optional
            As in `report_data`.
        title : str, optional
            Heading of the page, such as the name of the data.
        force : bool, default=False
            Overwrite a file that is there already; without it this is a FileExistsError.

        Returns
        -------
        Path
            Where it was written.
        """
        from kernmend.report import write_page

        facts = self.report_data(columns=columns, row_labels=row_labels, image_shape=image_shape, max_rows=max_rows)
        return write_page(facts, Path(path), title=title, force=force)

    def save(self, path: Any, *, force: bool = False) -> Path:
        """Write the fitted estimator to one file, arrays and JSON without pickle; `kernmend.load(path)` reads it.

        After a fit to a dask array it holds the landmarks, as if those had been all rows.

        Parameters
        ----------
        path : str or Path
            The name of the file; any ending will do.
        force : bool, default=False
            Overwrite a file that is there already; without it this is an error.

        Returns
        -------
        Path
            Where the file is.
        """
        from kernmend.io import model_file  # which knows all estimators

        return model_file.save(lazy.of_landmarks(self), path, force=force)
