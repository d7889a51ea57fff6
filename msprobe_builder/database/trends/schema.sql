-- A .trend.db: statistics of targets over ranks and steps. Explained in docs/trends.md.
PRAGMA application_id = 0x4D535054; -- "MSPT"
PRAGMA user_version = 2; -- 1 has no change

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- What is measured, in the order in which a step comes by it.
CREATE TABLE target (
    target_id INTEGER PRIMARY KEY, -- from 0, without gaps
    kind      TEXT NOT NULL,       -- weight, activation, …, of dumps forward, backward, parameters_grad
    name      TEXT NOT NULL,
    module    TEXT,                -- path of the module it belongs to
    node      TEXT,                -- name of the node in a .vis.db, where it is known
    UNIQUE (kind, name)
);

CREATE TABLE step (step INTEGER PRIMARY KEY);
CREATE TABLE rank (rank INTEGER PRIMARY KEY);

-- Bit i of nan_flags says that the i-th statistic is NaN; one that was not recorded is NULL alone.
CREATE TABLE value (
    target_id INTEGER NOT NULL REFERENCES target,
    rank      INTEGER NOT NULL REFERENCES rank,
    step      INTEGER NOT NULL REFERENCES step,
    norm      REAL,
    mean      REAL,
    max       REAL,
    min       REAL,
    zeros     REAL,
    nans      REAL,
    change    REAL, -- relative to the step before, told by sketches; infinite from zero
    nan_flags INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (target_id, rank, step)
) WITHOUT ROWID;

-- For people: names in place of numbers; NaN reads 'NaN'.
CREATE VIEW trend_view AS
SELECT kind, name, rank, step,
       iif(nan_flags & 1, 'NaN', norm) AS norm,
       iif(nan_flags & 2, 'NaN', mean) AS mean,
       iif(nan_flags & 4, 'NaN', max)  AS max,
       iif(nan_flags & 8, 'NaN', min)  AS min,
       zeros, nans,
       iif(nan_flags & 64, 'NaN', change) AS change
FROM value JOIN target USING (target_id);
