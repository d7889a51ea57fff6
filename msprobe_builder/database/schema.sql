-- Schema of a .vis.db file. Every column is explained in docs/design/database.md, every version in
-- migrations.py. layout.py puts the metrics of base/codes.py where a comment says "metrics".
PRAGMA application_id = 0x4D535042; -- "MSPB"

-- What was built, by what, from what: one row per fact.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT
) WITHOUT ROWID;

-- Every repeated text (name stems, dtypes, shapes, parameter names, paths) stored once.
CREATE TABLE text (
    text_id INTEGER PRIMARY KEY,
    value   TEXT NOT NULL
);

-- The grading profile: words, error range [low, high) and colours.
CREATE TABLE grade (
    grade       INTEGER PRIMARY KEY, -- 0 ungraded, 1 ok … 5 severe, 6 unmatched
    name        TEXT NOT NULL UNIQUE,
    low         REAL,
    high        REAL,
    colour      TEXT NOT NULL
);

-- One side of one rank of one step.
CREATE TABLE graph (
    graph_id    INTEGER PRIMARY KEY,
    side        INTEGER NOT NULL CHECK (side IN (0, 1)), -- 0 npu, 1 bench
    step        INTEGER NOT NULL,
    rank        INTEGER NOT NULL,
    first_node  INTEGER NOT NULL, -- node_id of the root
    node_count  INTEGER NOT NULL,
    micro_steps INTEGER NOT NULL,
    level       TEXT,
    framework   TEXT,
    dump_dir    TEXT NOT NULL,
    tensor_dir  TEXT,
    inputs      TEXT, -- digest of names, sizes and times of its files; NULL of dumps in memory
    loss        REAL, -- the mean of the micro-steps' losses, or the text NaN; NULL where none is there
    UNIQUE (step, rank, side)
);

-- Nodes in execution order (pre-order): a subtree is the range node_id … subtree_end.
CREATE TABLE node (
    node_id      INTEGER PRIMARY KEY,
    graph_id     INTEGER NOT NULL REFERENCES graph,
    parent_id    INTEGER REFERENCES node,
    subtree_end  INTEGER NOT NULL, -- last node_id of the subtree, inclusive
    kind         INTEGER NOT NULL CHECK (kind IN (0, 1, 2)),      -- module, api, collection
    stem_id      INTEGER NOT NULL REFERENCES text (text_id),
    direction    INTEGER NOT NULL CHECK (direction IN (0, 1, 2)), -- none, forward, backward
    call         INTEGER,
    micro_step   INTEGER NOT NULL,
    is_recompute INTEGER NOT NULL DEFAULT 0,
    stack_id     INTEGER,
    error        REAL,
    grade        INTEGER NOT NULL DEFAULT 0 REFERENCES grade,
    overflow     INTEGER CHECK (overflow IN (1, 2, 3))            -- medium, high, critical
);

-- Few nodes overflow: counting and finding them must not read all the others.
CREATE INDEX node_overflow ON node (overflow) WHERE overflow IS NOT NULL;

-- Nodes of the hierarchy that have no record in dump.json; nothing of them can be compared.
CREATE TABLE unrecorded (
    node_id INTEGER PRIMARY KEY REFERENCES node
);

-- What lies below each module and collection (the node itself not counted).
CREATE TABLE rollup (
    node_id        INTEGER PRIMARY KEY REFERENCES node,
    worst_grade    INTEGER NOT NULL, -- worst of ok … severe below, 0 when none is graded
    worst_overflow INTEGER,
    ungraded       INTEGER NOT NULL,
    ok             INTEGER NOT NULL,
    slight         INTEGER NOT NULL,
    moderate       INTEGER NOT NULL,
    serious        INTEGER NOT NULL,
    severe         INTEGER NOT NULL,
    unmatched      INTEGER NOT NULL
);

-- Which node equals which: one to one.
CREATE TABLE match (
    npu_node   INTEGER PRIMARY KEY REFERENCES node,
    bench_node INTEGER NOT NULL UNIQUE REFERENCES node,
    source     INTEGER NOT NULL DEFAULT 0, -- 0 exact, 1 fuzzy, 2 mapping, 3 manual, 4 file, 5 automatic
    author     TEXT,
    matched_at TEXT,                       -- ISO 8601, UTC; NULL for matches of the build
    note       TEXT,
    evidence   INTEGER,                    -- what showed a match that was found automatically,
    certainty  REAL                        -- and how sure it is, from 0.5 to 1; also when confirmed
);

CREATE INDEX match_automatic ON match (npu_node) WHERE source = 5;

-- Why a node of a comparison has no partner, and who came nearest.
CREATE TABLE unmatched (
    node_id      INTEGER PRIMARY KEY REFERENCES node,
    reason       INTEGER NOT NULL REFERENCES unmatched_reason (reason),
    candidate_id INTEGER REFERENCES node,
    detail       TEXT
);

CREATE TABLE unmatched_reason (
    reason INTEGER PRIMARY KEY,
    name   TEXT NOT NULL UNIQUE
);

-- Which nodes of the other side one without a partner may belong to by the evidence.
CREATE TABLE likely (
    node_id      INTEGER NOT NULL REFERENCES node,
    place        INTEGER NOT NULL, -- 1 for the likeliest
    candidate_id INTEGER NOT NULL REFERENCES node,
    likelihood   REAL NOT NULL,    -- 0…1; all of a node sum up to at most 1
    PRIMARY KEY (node_id, place)
) WITHOUT ROWID;

-- Calls that do together what calls of the other side do, found by what goes in and out.
CREATE TABLE call_group (
    call_group_id INTEGER PRIMARY KEY,
    graph_id      INTEGER NOT NULL REFERENCES graph, -- of the npu side
    operation     TEXT NOT NULL, -- what all of it does
    certainty     REAL NOT NULL, -- from 0.5 to 1
    error         REAL,          -- from its outer inputs and outputs, as of a node
    grade         INTEGER NOT NULL REFERENCES grade
);

CREATE TABLE group_member (
    node_id       INTEGER PRIMARY KEY REFERENCES node, -- of either side; has no match of its own
    call_group_id INTEGER NOT NULL REFERENCES call_group
);
CREATE INDEX group_member_group ON group_member (call_group_id);

-- Tensors of a node in the order of its record; statistics are float64.
CREATE TABLE tensor (
    node_id       INTEGER NOT NULL REFERENCES node,
    ordinal       INTEGER NOT NULL, -- shared with argument
    section       INTEGER NOT NULL, -- 0 input, 1 output, 2 parameters, 3 parameters_grad
    name_id       INTEGER NOT NULL REFERENCES text (text_id),
    type_id       INTEGER REFERENCES text (text_id),
    dtype_id      INTEGER REFERENCES text (text_id),
    shape_id      INTEGER REFERENCES text (text_id),
    requires_grad INTEGER,
    max           REAL,
    min           REAL,
    mean          REAL,
    norm          REAL,
    nan_flags     INTEGER NOT NULL DEFAULT 0, -- bit 0 max, 1 min, 2 mean, 3 norm is NaN
    md5           TEXT,
    file          TEXT,             -- name inside tensor_dir
    sketch        INTEGER,          -- number of its row in sketch.bin of the graph's dump_dir
    PRIMARY KEY (node_id, ordinal)
) WITHOUT ROWID;

-- Everything else that was passed or returned: numbers, text, sizes, groups, None.
CREATE TABLE argument (
    node_id INTEGER NOT NULL REFERENCES node,
    ordinal INTEGER NOT NULL, -- shared with tensor
    section INTEGER NOT NULL,
    name_id INTEGER NOT NULL REFERENCES text (text_id),
    type_id INTEGER REFERENCES text (text_id),
    value_id INTEGER REFERENCES text (text_id),
    PRIMARY KEY (node_id, ordinal)
) WITHOUT ROWID;

-- One row per pair of tensors of matched nodes; the columns of the other tasks stay NULL.
CREATE TABLE comparison (
    npu_node            INTEGER NOT NULL REFERENCES node,
    npu_ordinal         INTEGER NOT NULL,
    bench_ordinal       INTEGER NOT NULL, -- of the node matched with npu_node
    /* metrics */
    md5_equal           INTEGER,
    requires_grad_equal INTEGER,
    error               REAL,    -- what this pair contributes to the node's error
    nan_flags           INTEGER NOT NULL DEFAULT 0, -- bit i: i-th metric column is NaN
    note_id             INTEGER REFERENCES text (text_id),
    slices              BLOB,    -- shares of the difference in 16 slices of rows, 16 of columns
    PRIMARY KEY (npu_node, npu_ordinal)
) WITHOUT ROWID;

-- The same for what goes into and comes out of groups.
CREATE TABLE group_comparison (
    call_group_id       INTEGER NOT NULL REFERENCES call_group,
    npu_node            INTEGER NOT NULL REFERENCES node,
    npu_ordinal         INTEGER NOT NULL,
    bench_node          INTEGER NOT NULL REFERENCES node,
    bench_ordinal       INTEGER NOT NULL,
    /* metrics */
    md5_equal           INTEGER,
    requires_grad_equal INTEGER,
    error               REAL,
    nan_flags           INTEGER NOT NULL DEFAULT 0, -- as in comparison
    note_id             INTEGER REFERENCES text (text_id),
    slices              BLOB,    -- shares of the difference in 16 slices of rows, 16 of columns
    PRIMARY KEY (npu_node, npu_ordinal)
) WITHOUT ROWID;

-- Call stacks, innermost frame at depth 0.
CREATE TABLE frame (
    frame_id    INTEGER PRIMARY KEY,
    file_id     INTEGER REFERENCES text (text_id),
    line        INTEGER,
    function_id INTEGER REFERENCES text (text_id),
    source_id   INTEGER REFERENCES text (text_id) -- source line, or the whole entry if it has no other shape
);

CREATE TABLE stack (
    stack_id INTEGER NOT NULL,
    depth    INTEGER NOT NULL,
    frame_id INTEGER NOT NULL REFERENCES frame,
    PRIMARY KEY (stack_id, depth)
) WITHOUT ROWID;

-- Communication between the ranks of one step and side.
CREATE TABLE communication (
    node_id    INTEGER NOT NULL REFERENCES node,
    partner_id INTEGER NOT NULL REFERENCES node,
    role       INTEGER NOT NULL, -- 0 send, 1 receive, 2 send_receive; seen from node_id
    data_equal INTEGER,          -- NULL when it cannot be told
    PRIMARY KEY (node_id, partner_id, role)
) WITHOUT ROWID;

-- Of a run without a reference: the tensors by which its ranks are checked, and who made them. Of a
-- comparison: the weights of both sides, by which the updates between steps are compared.
CREATE TABLE evidence (
    node_id       INTEGER NOT NULL REFERENCES node,
    ordinal       INTEGER NOT NULL,
    numbers       BLOB,    -- of its sketch: 64 of float32, little-endian; NULL without one
    left_out      INTEGER, -- NaN and infinities that the sketch leaves out
    maker         INTEGER, -- 1 a call, 2 parameter, 3 buffer, 4 gradient, 5 outside; NULL not known
    maker_id      INTEGER REFERENCES node,
    maker_ordinal INTEGER, -- the tensor that the call put out or wrote to
    maker_name_id INTEGER REFERENCES text (text_id), -- of the parameter, buffer or gradient
    PRIMARY KEY (node_id, ordinal)
) WITHOUT ROWID;

-- The parameter that made a node overflow.
CREATE TABLE overflow_parameter (
    node_id INTEGER NOT NULL REFERENCES node,
    ordinal INTEGER NOT NULL,
    PRIMARY KEY (node_id, ordinal)
) WITHOUT ROWID;

-- Where NaN and infinity began: calls that made some, and on each rank the first that was given any.
CREATE TABLE not_finite (
    node_id  INTEGER PRIMARY KEY REFERENCES node,
    part     INTEGER NOT NULL CHECK (part IN (0, 1, 2)), -- made it, was given it, received it
    giver_id INTEGER REFERENCES node, -- the call of another rank from which it was received
    why      TEXT NOT NULL            -- JSON: facts
);

-- Where a node of a parallel merge came from, and how a merged value was made.
CREATE TABLE origin (
    node_id INTEGER NOT NULL REFERENCES node,
    rank    INTEGER NOT NULL,
    PRIMARY KEY (node_id, rank)
) WITHOUT ROWID;

CREATE TABLE merge_recipe (
    node_id   INTEGER NOT NULL REFERENCES node,
    ordinal   INTEGER NOT NULL,
    recipe_id INTEGER NOT NULL REFERENCES text, -- many calls see the same tensor
    PRIMARY KEY (node_id, ordinal)
) WITHOUT ROWID;

-- Where a parallel merge found ranks or stages apart in what they should have alike.
CREATE TABLE disagreement (
    node_id    INTEGER NOT NULL REFERENCES node,
    ordinal    INTEGER NOT NULL,
    rank       INTEGER NOT NULL, -- whose value is not the one that is shown
    kind       INTEGER NOT NULL CHECK (kind IN (0, 1, 2)), -- replica, stage, share
    shown_rank INTEGER,          -- whose value is shown; NULL where the shown one is of many
    suspect    INTEGER,          -- the rank that is off: outvoted, or further from the reference
    is_origin  INTEGER NOT NULL, -- 1 where what its node took in agrees
    max        REAL,             -- of the rank's own value
    min        REAL,
    mean       REAL,
    norm       REAL,
    nan_flags  INTEGER NOT NULL DEFAULT 0, -- as in tensor
    difference REAL NOT NULL,    -- 0…1 of the size of the value that is shown
    note_id    INTEGER REFERENCES text (text_id),
    PRIMARY KEY (node_id, ordinal, rank, kind)
) WITHOUT ROWID;

-- What running single calls again has found; filled by msprobe-operators check.
CREATE TABLE operator_check (
    node_id  INTEGER PRIMARY KEY REFERENCES node,
    status   TEXT NOT NULL CHECK (status IN ('passed', 'failed', 'not tested')),
    compared TEXT NOT NULL, -- recorded: the result in the dump; device: that of a second run
    times    REAL,          -- largest error in units of what rounding explains; NULL: no number
    reason   TEXT NOT NULL  -- JSON: facts; empty where there is none
);

-- What a comparison of merged tensors needs: their files, or why there is nothing to compare.
CREATE TABLE merge_data (
    node_id  INTEGER NOT NULL REFERENCES node,
    ordinal  INTEGER NOT NULL,
    assembly TEXT, -- JSON: the files and how they make up the whole
    unknown  TEXT,
    PRIMARY KEY (node_id, ordinal)
) WITHOUT ROWID;

-- The directories that the assemblies of a graph refer to by number.
CREATE TABLE merge_directory (
    graph_id   INTEGER NOT NULL REFERENCES graph,
    number     INTEGER NOT NULL,
    tensor_dir TEXT,
    PRIMARY KEY (graph_id, number)
) WITHOUT ROWID;

-- The verdict: one row for each step and rank, and one without either for the whole.
CREATE TABLE verdict (
    verdict_id  INTEGER PRIMARY KEY,
    step        INTEGER,
    rank        INTEGER,
    conclusion  TEXT NOT NULL,    -- fault, clean, undecided
    sentence    TEXT NOT NULL,    -- JSON: facts, see facts/fact.py
    compared    INTEGER NOT NULL, -- calls whose inputs and outputs could be judged
    noise       REAL,             -- error of a call whose inputs are equal, NULL when not known
    next_dump   TEXT              -- JSON: what to record next; of the whole only
);

-- Who may be to blame; those of strength 0 are explained by something else.
CREATE TABLE suspect (
    suspect_id INTEGER PRIMARY KEY,
    node_id    INTEGER NOT NULL REFERENCES node,
    place      INTEGER NOT NULL,  -- order within the step and rank, from 1
    overall    INTEGER,           -- order within the file, from 1; NULL without strength
    strength   INTEGER NOT NULL CHECK (strength IN (0, 1, 2)), -- none, weak, strong
    cause      TEXT NOT NULL,
    error      REAL,
    expected   REAL,
    followers  INTEGER NOT NULL,  -- nodes that inherit from it
    source     TEXT,              -- file and line that made the call
    evidence   TEXT NOT NULL,     -- JSON: facts
    ranks      TEXT               -- of a merged model those whose arguments are off, with commas
);
CREATE INDEX suspect_node ON suspect (node_id);

-- What a suspect and a verdict said of their own step and rank alone, where asking the others
-- has changed that: what is added to the file later is judged with all of them anew.
CREATE TABLE suspect_alone (
    suspect_id INTEGER PRIMARY KEY REFERENCES suspect,
    strength   INTEGER NOT NULL,
    evidence   TEXT NOT NULL
);
CREATE TABLE verdict_alone (
    verdict_id INTEGER PRIMARY KEY REFERENCES verdict,
    conclusion TEXT NOT NULL,
    sentence   TEXT NOT NULL
);

-- What the verdict on a step and rank weighed: kinds of clues, and what explained some of them.
CREATE TABLE weighed (
    verdict_id INTEGER NOT NULL REFERENCES verdict,
    kind       TEXT NOT NULL,
    fired      INTEGER NOT NULL, -- clues of that kind, or that it explained
    decided    INTEGER NOT NULL, -- of these, what is told first, or would be without it
    node_id    INTEGER REFERENCES node, -- the first of those
    PRIMARY KEY (verdict_id, kind)
) WITHOUT ROWID;

-- What part each npu node plays; a matched node without a row is clean.
CREATE TABLE role (
    node_id    INTEGER PRIMARY KEY REFERENCES node,
    role       INTEGER NOT NULL,  -- 0 unknown, 1 clean, 2 suspect, 3 carrier, 4 amplifier
    given      REAL,              -- error of what it was given
    shown      REAL,              -- error of what it put out
    expected   REAL,              -- what would be normal of that
    suspect_id INTEGER REFERENCES suspect, -- where it inherits from
    reason     TEXT               -- why the role is unknown
);

-- What is wrong goes from one npu node to the next by a tensor that they share.
CREATE TABLE propagation (
    giver_id INTEGER NOT NULL REFERENCES node,
    node_id  INTEGER NOT NULL REFERENCES node,
    PRIMARY KEY (giver_id, node_id)
) WITHOUT ROWID;
CREATE INDEX propagation_node ON propagation (node_id);

-- May the runs be compared at all, by the configurations that were given with them: one row for
-- each part and one without a part for the whole; none where no configurations were given.
CREATE TABLE configuration (
    configuration_id INTEGER PRIMARY KEY,
    part             TEXT,             -- env, pip, hyperparameters, dataset, weights, random
    outcome          TEXT NOT NULL CHECK (outcome IN ('pass', 'warning', 'error', 'unknown')),
    differences      INTEGER NOT NULL, -- how many there are; not all need be in the table below
    sentence         TEXT NOT NULL     -- the conclusion, or the first difference of the part
);

-- What differs, the worst of each part first.
CREATE TABLE configuration_difference (
    configuration_id INTEGER NOT NULL REFERENCES configuration,
    place            INTEGER NOT NULL, -- from 1
    level            TEXT NOT NULL CHECK (level IN ('warning', 'error')),
    name             TEXT NOT NULL,    -- of a variable, package, option, tensor or call
    npu_value        TEXT,             -- NULL: not there
    bench_value      TEXT,
    sentence         TEXT NOT NULL,
    PRIMARY KEY (configuration_id, place)
) WITHOUT ROWID;

-- What the build noticed.
CREATE TABLE diagnostic (
    diagnostic_id INTEGER PRIMARY KEY,
    severity      TEXT NOT NULL CHECK (severity IN ('info', 'warning', 'error')),
    code          TEXT NOT NULL,
    side          INTEGER,
    step          INTEGER,
    rank          INTEGER,
    subject       TEXT,             -- node name, file or key; an example when count > 1
    count         INTEGER NOT NULL DEFAULT 1,
    message       TEXT NOT NULL
);

-- What tables node and match say of a large graph, once more, for who shows it: one column in one
-- value. Good only as long as the file's change counter is meta.packed_at.
CREATE TABLE packed_column (
    graph_id INTEGER NOT NULL REFERENCES graph,
    name     TEXT NOT NULL,
    type     TEXT NOT NULL CHECK (type IN ('|u1', '<i2', '<i4', '<f4')), -- as numpy has it
    packed   BLOB NOT NULL, -- zlib; one number per node in execution order
    PRIMARY KEY (graph_id, name)
);

-- The user's own changes, oldest first: what undo and the audit trail read.
CREATE TABLE edit (
    edit_id    INTEGER PRIMARY KEY,
    batch      INTEGER NOT NULL,    -- first edit of those that were made, and are undone, together
    edited_at  TEXT NOT NULL,
    author     TEXT,
    action     TEXT NOT NULL,       -- match, unmatch, confirm, reject
    npu_node   INTEGER NOT NULL REFERENCES node,
    bench_node INTEGER NOT NULL REFERENCES node,
    source     INTEGER NOT NULL,    -- of the match that was made or ended
    reason     TEXT,
    undone     INTEGER NOT NULL DEFAULT 0, -- 1 undone, 2 undone and overtaken by a later edit
    evidence   INTEGER,             -- as in match, of a match that was found by it
    certainty  REAL
);
CREATE INDEX edit_npu ON edit (npu_node);
CREATE INDEX edit_bench ON edit (bench_node);

-- What unmatched said of nodes that were matched by hand since; it holds again when that ends.
CREATE TABLE unmatched_before (
    node_id      INTEGER PRIMARY KEY REFERENCES node,
    reason       INTEGER NOT NULL REFERENCES unmatched_reason (reason),
    candidate_id INTEGER REFERENCES node,
    detail       TEXT
);

-- For people: readable names over the tables above.

CREATE VIEW recipe_view AS
SELECT node_id, ordinal, value AS recipe FROM merge_recipe JOIN text ON text_id = recipe_id;

CREATE VIEW node_name AS
SELECT node.node_id,
       CASE
           WHEN direction = 0 THEN value
           WHEN kind = 1 THEN value || '.' || call || iif(direction = 1, '.forward', '.backward')
           ELSE value || iif(direction = 1, '.forward.', '.backward.') || call
       END AS name
FROM node JOIN text ON text_id = stem_id;

-- One row per node; side is npu or bench, seq the order of execution within its graph.
CREATE VIEW node_view AS
SELECT iif(graph.side = 0, 'npu', 'bench')                        AS side,
       graph.step,
       graph.rank,
       node.micro_step,
       node.node_id - graph.first_node                            AS seq,
       own.name,
       parent.name                                                AS parent,
       CASE node.kind WHEN 0 THEN 'module' WHEN 1 THEN 'api' ELSE 'collection' END AS kind,
       partner.name                                               AS matched,
       unmatched_reason.name                                      AS unmatched_reason,
       node.error,
       grade.name                                                 AS grade,
       CASE node.overflow WHEN 1 THEN 'medium' WHEN 2 THEN 'high' WHEN 3 THEN 'critical' END AS overflow,
       node.node_id
FROM node
JOIN graph USING (graph_id)
JOIN node_name AS own ON own.node_id = node.node_id
JOIN grade ON grade.grade = node.grade
LEFT JOIN node_name AS parent ON parent.node_id = node.parent_id
LEFT JOIN match AS to_bench ON graph.side = 0 AND to_bench.npu_node = node.node_id
LEFT JOIN match AS to_npu ON graph.side = 1 AND to_npu.bench_node = node.node_id
LEFT JOIN node_name AS partner ON partner.node_id = coalesce(to_bench.bench_node, to_npu.npu_node)
LEFT JOIN unmatched ON unmatched.node_id = node.node_id
LEFT JOIN unmatched_reason ON unmatched_reason.reason = unmatched.reason;

-- One row per tensor with its errors; NaN reads 'NaN', the metrics stand on the npu side.
CREATE VIEW tensor_view AS
SELECT iif(graph.side = 0, 'npu', 'bench')                        AS side,
       graph.step,
       graph.rank,
       node_name.name                                             AS node,
       CASE tensor.section
           WHEN 0 THEN 'input' WHEN 1 THEN 'output' WHEN 2 THEN 'parameters' ELSE 'parameters_grad'
       END                                                        AS direction,
       parameter.value                                            AS name,
       dtype.value                                                AS dtype,
       shape.value                                                AS shape,
       iif(tensor.nan_flags & 1, 'NaN', tensor.max)               AS max,
       iif(tensor.nan_flags & 2, 'NaN', tensor.min)               AS min,
       iif(tensor.nan_flags & 4, 'NaN', tensor.mean)              AS mean,
       iif(tensor.nan_flags & 8, 'NaN', tensor.norm)              AS norm,
       tensor.md5,
       partner_name.value                                         AS matched,
       /* metrics of own */
       own.md5_equal,
       own.requires_grad_equal,
       own.error,
       note.value                                                 AS note,
       tensor.requires_grad,
       tensor.node_id,
       tensor.ordinal
FROM tensor
JOIN node USING (node_id)
JOIN graph USING (graph_id)
JOIN node_name USING (node_id)
JOIN text AS parameter ON parameter.text_id = tensor.name_id
LEFT JOIN text AS dtype ON dtype.text_id = tensor.dtype_id
LEFT JOIN text AS shape ON shape.text_id = tensor.shape_id
LEFT JOIN comparison AS own
       ON graph.side = 0 AND own.npu_node = tensor.node_id AND own.npu_ordinal = tensor.ordinal
LEFT JOIN text AS note ON note.text_id = own.note_id
LEFT JOIN match AS to_bench ON graph.side = 0 AND to_bench.npu_node = tensor.node_id
LEFT JOIN match AS to_npu ON graph.side = 1 AND to_npu.bench_node = tensor.node_id
LEFT JOIN comparison AS theirs
       ON theirs.npu_node = to_npu.npu_node AND theirs.bench_ordinal = tensor.ordinal
LEFT JOIN tensor AS partner
       ON partner.node_id = coalesce(to_bench.bench_node, to_npu.npu_node)
      AND partner.ordinal = coalesce(own.bench_ordinal, theirs.npu_ordinal)
LEFT JOIN text AS partner_name ON partner_name.text_id = partner.name_id;
