import wordings from '../../../../msprobe_builder/facts/catalogue/en.json';
import { factsOf, type Argument, type Fact } from '../../data/facts';
import { word } from '../wording';

export const verdictEn = {
  title: 'Verdict',
  conclusions: { fault: 'Fault found', clean: 'No fault found', undecided: 'Undecided' },
  none: 'This file holds no verdict: it was built without one, or nothing could be judged.',
  /** What the build says, as facts; of an older file as a sentence. */
  tell: (said: string) => word(factsOf(said), wordings),
  told: (facts: readonly Fact[]) => word(facts, wordings),
  /** A single fact, or what one of them holds. */
  word: (said: Argument) => word(said, wordings),
  /** Where a fault is that nobody recorded. */
  before: (name: string) => `before ${name}`,
  /** Suspects that are not listed. */
  more: (count: string) => `and ${count} more; v leads through all of them`,
  older: (changed: number) =>
    `${changed === 1 ? '1 match was' : `${changed} matches were`} changed since: export the matches and build again with --match-file to have them judged.`,
  record: (size: string) => (size ? `Record next: about ${size} of each run` : 'Record next'),
  recordHow:
    'Save this as config.json and give it to the collector, PrecisionDebugger(config_path="config.json", dump_path=…), in both runs, each with a folder of its own; then build again.',
  copyConfig: 'Copy the configuration',
  /** Of a suspect that nothing is certain of. */
  others: 'Other suspects',
  what: 'What',
  sure: 'How sure',
  follows: 'What follows',
  next: 'Do next',
  limits: 'Not judged, and what would not have shown:',
  argument: (name: string) => `argument ${name}`,
  strong: 'strong evidence',
  certainly: (by: string) => `${by[0]!.toUpperCase()}${by.slice(1)}.`,
  likely: (percent: number, by: string) => `${percent} % that it is this place: ${by}.`,
  rival: (name: string, by: string) => `Else ${name} (${by})`,
  onRanks: (step: number, ranks: string) =>
    `step ${step}, ${/^\d+$/.test(ranks) ? 'rank' : 'ranks'} ${ranks}`,
  wrongIn: (places: string, more: number) =>
    `It shows on ${places}${more > 0 ? ` and in ${more} later ${more === 1 ? 'step' : 'steps'}` : ''}.`,
  followsIn: (count: string) => `${count} graphs follow from it.`,
  card: 'The verdict in full',
  weak: 'weak evidence',
  first: 'Show it in the graph',
  check: 'Is the operator itself wrong?',
  copyCheck: 'Copy the command',
  suspect: 'Suspect',
  nextSuspect: 'Next suspect',
  previousSuspect: 'Previous suspect',
  nextError: 'Next error',
  previousError: 'Previous error',
  noSuspect: 'The verdict accuses nobody.',
  little: (share: string) =>
    `Only ${share} compared. Build again with a layer mapping (-lm), or match by hand.`,
  noError: 'No call of this graph is in error.',
};
