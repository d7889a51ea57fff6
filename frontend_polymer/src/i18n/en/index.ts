import { configurationEn } from './configuration';
import { detailsEn } from './details';
import { findEn } from './find';
import { flowEn } from './flow';
import { matchEn } from './match';
import { noticesEn } from './notices';
import { overviewEn } from './overview';
import { shellEn } from './shell';
import { tensorsEn } from './tensors';
import { trendEn } from './trend';
import { verdictEn } from './verdict';

/** Every text of the viewer. A language that lacks one of these keys does not compile. */
export const en = {
  /** `tag` is what the page declares (BCP 47), `short` what the switch shows. */
  language: { code: 'en', tag: 'en', name: 'English', short: 'EN' },

  title: 'Model hierarchies',
  toolbar: {
    file: 'File',
    step: 'Step',
    rank: 'Rank',
    microStep: 'Micro-step',
    allMicroSteps: 'All',
    refresh: 'Look for new files and reload',
    language: 'Language',
    theme: 'Theme',
    overview: 'Overview',
    overviewHint: 'All steps and ranks of this file (o)',
    help: 'Keys and gestures',
  },
  themes: { auto: 'Follow TensorBoard', light: 'Light', dark: 'Dark' },

  /** What part each side plays; `sides` is what they are called. */
  roles: { debug: 'Debug', reference: 'Reference', model: 'Model' },
  sides: { debug: '{debug}', reference: '{reference}', model: '{debug}' },
  shortSides: { debug: '{debug}', reference: '{reference}' },
  header: {
    noGraph: 'This step and rank exist on one side only.',
  },
  tasks: {
    statistics: 'statistics',
    tensor: 'tensors',
    md5: 'checksums',
    structure: 'structure only',
  },

  view: {
    expandAll: 'Expand all',
    collapseAll: 'Collapse all',
    expandBelow: 'Expand all below',
    level: 'Level',
    toLevel: (level: number) => `Expand to level ${level}`,
    pathToErrors: 'Path to errors',
    pathToErrorsHint: 'Open only what leads to the worst nodes',
    fit: 'Fit the whole graph into the window (f)',
    zoomIn: 'Zoom in (+)',
    zoomOut: 'Zoom out (−)',
    zoomReset: 'Reading size (0)',
    sync: 'Move together',
    syncHint: 'Expand, select and scroll both sides together',
    inside: (count: number, grade: string) => `${count} × ${grade} inside`,
    outlineLabel: (side: string) => `Hierarchy, ${side}`,
    splitter: 'Width of the two sides',
    unified: 'One tree',
    unifiedHint: 'Both sides in one tree, with what their nodes put out side by side (i)',
    onlyDebug: 'only in {debug}',
    onlyReference: 'only in {reference}',
    elsewhere: 'its counterpart stands elsewhere',
    values: 'L2 norm of the output',
    valuesHint: 'L2 norm of the first output of each node that has one, on either side',
  },

  legend: {
    label: 'Grades',
    stepThrough: (grade: string, count: string) =>
      `${grade}: ${count} nodes. Click for the next one, Shift+click for the previous one.`,
    none: (grade: string) => `${grade}: no nodes`,
    position: (position: string, total: string) => `${position} of ${total}`,
    total: (count: string) => `${count} nodes`,
    overflow: 'Overflow',
  },
  grades: {
    ungraded: 'Not graded',
    ok: 'OK',
    slight: 'Slight',
    moderate: 'Moderate',
    serious: 'Serious',
    severe: 'Severe',
    unmatched: 'Unmatched',
  },
  /** What part a node plays in the verdict. */
  parts: {
    suspect: 'Suspect',
    carrier: 'Carries it on',
    clean: 'Clean',
    unjudged: 'Not judged',
  },
  /** What the verdict says of a step and rank. */
  outcomes: {
    fault: 'Fault',
    follows: 'Follows',
    undecided: 'Undecided',
    clean: 'Clean',
    unjudged: 'Not judged',
  },
  overflow: { medium: 'Medium', high: 'High', critical: 'Critical' },
  overflowHints: {
    medium: 'Abnormal input, normal output',
    high: 'Abnormal input and output, or the norm grows abnormally',
    critical: 'Normal input, abnormal output',
  },

  colours: {
    label: 'What the colours say',
    next: 'Colour by something else',
    powers: 'Small errors as powers of ten',
    by: {
      role: 'Colour by part in the verdict',
      precision: 'Colour by the documented error',
      beyond: 'Colour by error beyond rounding',
      scaled: 'Colour by error scaled to the tensor',
      overflow: 'Colour by overflow instead of error',
    },
    short: {
      role: 'Verdict',
      precision: 'Documented',
      beyond: 'Beyond rounding',
      scaled: 'Scaled',
      overflow: 'Overflow',
    },
    meaning: {
      role: 'Colours: who may be to blame, who carries it on, what is clean, what nobody could judge. Numbers: how far the outputs are off as a share of their tensor.',
      precision:
        'Error: how far the outputs are off relative to the reference, 0 to 1, as the documentation defines it.',
      beyond:
        'Error: how many times what rounding alone does to an element (×) the outputs are off; what is rounding stays pale.',
      scaled:
        'Error: how far the outputs are off as a share of their tensor: extremes of its largest value, mean and norm of their typical size.',
      overflow: 'Overflow: where NaN, infinity or abnormal growth comes in and goes out.',
    },
    nearZero: 'Near zero',
    nearZeroHint:
      'Less than 5 % of the tensor: the relative error is large because the value is nearly zero',
    hidden: 'Wrong before',
    hiddenHint:
      'The output is off by 5 % of its tensor or more although this node is not charged with it',
  },

  search: {
    label: 'Search by name, module or code line',
    placeholder: 'Search nodes  ( / )',
    hint: 'Words of names and modules in any order, e.g. layers.1 softmax, or a line of code, e.g. model.py:193',
    side: 'Side to search',
    next: 'Next match (Enter, n)',
    previous: 'Previous match (Shift+Enter, p)',
    none: 'No match',
    count: (count: string) => (count === '1' ? '1 match' : `${count} matches`),
    position: (position: string, total: string) => `${position} / ${total}`,
  },

  details: {
    label: 'Details of the selected node',
    nothing: 'No node is selected',
    empty: 'Select a node to see its tensors, their errors and where it was called from.',
    emptyKeys: 'Double click opens a module. Press / to search, ? for all keys.',
    outdated:
      'The file has changed since the graph was loaded, so what this node holds cannot be shown.',
    firstError: 'Go to the first error',
    copyName: 'Copy the full name',
    copied: 'Copied',
    copyFailed: 'Copying failed: the browser does not allow it here',
    microStep: (step: number) => `Micro-step ${step}`,
    recompute: 'Recomputed',
    error: 'Error',
    matched: 'Matched',
    matchedWith: 'Matched with',
    goToPartner: 'Go to the matched node',
    candidate: 'Nearest candidate',
    goToCandidate: 'Go to the nearest candidate',
    tensors: 'Tensors',
    stack: 'Stack',
    dock: 'Details at the right of the graph, or below it',
    resize: 'Size of the details',
    collapse: 'Hide the details',
    expand: 'Show the details',
    failed: 'The node could not be loaded.',
    retry: 'Try again',
  },
  kinds: { module: 'Module', api: 'API', collection: 'APIs between modules' },
  matchSources: {
    exact: 'same name',
    fuzzy: 'fuzzy match',
    mapping: 'layer mapping',
    manual: 'matched by hand',
    file: 'match file',
    automatic: 'found by evidence',
  },

  stack: {
    none: 'The dump holds no call stack for this node.',
    copy: 'Copy the stack',
    showLibrary: (count: number) =>
      count === 1 ? 'Show 1 library frame' : `Show ${count} library frames`,
    hideLibrary: (count: number) =>
      count === 1 ? 'Hide 1 library frame' : `Hide ${count} library frames`,
    missing: 'No node on this side.',
    folded: (name: string, count: number) =>
      `${name === 'python' ? 'Python' : name} · ${count === 1 ? '1 frame' : `${count} frames`}`,
    copyPlace: 'Copy path and line',
    editor: 'Open in VS Code',
    editorHint: 'Opens the file with this path on your own machine',
    calledFrom: 'Called from',
    calledFromHint:
      'The innermost line outside the framework and the collector. Click for the stack.',
  },

  /** Reasons of the database by name; an unknown one is shown as the server words it. */
  reasons: {
    no_such_name: 'No node of this name on the other side',
    other_parent: 'Same name, but below a different parent',
    other_parameter_count: 'A different number of parameters',
    other_type: 'A parameter has a different type',
    other_shape: 'A parameter has a different shape',
    partner_taken: 'The only candidate is matched with another node',
    parent_unmatched: 'The module around it has no counterpart',
    extra_call: 'The other side makes this call less often here',
    other_order: 'The other side makes this call at another place',
    other_class: 'A module of another class sits at this place',
    calls_unmatched: 'None of its calls has a counterpart',
    by_hand: 'Taken apart by hand',
    rejected: 'Rejected by hand',
    grouped: 'Found to be part of a group of calls',
  },

  ...detailsEn,
  ...tensorsEn,
  find: findEn,
  flow: flowEn,
  match: matchEn,
  overview: overviewEn,
  shell: shellEn,
  trend: trendEn,
  notices: noticesEn,
  verdict: verdictEn,
  configuration: configurationEn,

  progress: {
    catalog: 'Looking for databases…',
    graph: 'Loading the graph…',
  },

  empty: {
    title: 'No comparison to show yet',
    searched: 'No file ending in .vis.db was found in',
    build: 'Build one from two dumps, then look again:',
    config: 'compare.json names the two dump directories:',
    refresh: 'Look again',
    copy: 'Copy',
  },
  problem: {
    title: 'This cannot be shown',
    retry: 'Try again',
  },
  /** Problems by code; without an entry the server's own words are shown, which are English. */
  problems: {} as ProblemTexts,

  notes: {
    label: (count: string) =>
      count === '1' ? '1 note from the build' : `${count} notes from the build`,
    title: 'Notes from the build',
    about: 'About this file',
    task: 'Compared by',
    recorded: 'Recorded',
    builtAt: 'Built',
  },

  help: {
    title: 'Keys and gestures',
    close: 'Close',
    groups: {
      move: 'Move',
      open: 'Open and close',
      find: 'Find',
      fault: 'Follow the fault',
      view: 'View',
      match: 'Match by hand',
      other: 'Other',
    },
    doubleClick: 'Double click',
    click: 'Click',
    drag: 'Drag',
    wheel: 'Wheel',
    ctrlWheel: 'Ctrl + wheel, pinch',
    selectNode: 'Select a node',
    toggle: 'Open or close a module',
    pan: 'Move the view',
    zoom: 'Zoom at the pointer',
    zoomKeys: 'Zoom in, zoom out',
    fit: 'Fit the whole graph',
    readingSize: 'Reading size',
    walk: 'Walk through the nodes; ← closes or goes to the parent, → opens',
    ends: 'First and last visible node',
    cross: 'The matched node on the other side',
    search: 'Search',
    close2: 'Close a dialog, leave the search',
    help: 'This list',
    overview: 'Overview of all steps and ranks, and back',
  },
};

/** What happened, and what to do about it. */
export interface ProblemWording {
  readonly message: string;
  readonly remedy: string;
}

export type ProblemTexts = Readonly<Record<string, (file: string) => ProblemWording>>;

/** What a language has to provide. */
export type Texts = typeof en;
