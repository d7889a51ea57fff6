// What is looked for besides the name, piece by piece, so that each can be read and taken away.

import { TEXT_CONDITIONS, type ConditionKey } from './conditions';
import { NO_FIND, type Find } from './find';

/** One condition; those of one kind are alternatives, unless they are the only one of theirs. */
export interface FindPart {
  readonly kind: 'text' | 'grades' | 'overflows' | 'reasons' | ConditionKey | 'scope';
  readonly value: string | number;
  /** What to change so that the condition is gone. */
  readonly without: Partial<Find>;
}

/** The conditions that are set, in the order in which the panel asks for them. */
export function findParts(find: Find): FindPart[] {
  const single = (kind: 'text' | ConditionKey): FindPart[] =>
    find[kind] === '' ? [] : [{ kind, value: find[kind], without: { [kind]: NO_FIND[kind] } }];
  const several = (kind: 'grades' | 'overflows' | 'reasons'): FindPart[] => {
    const values: readonly (string | number)[] = find[kind];
    return values.map((value) => ({
      ...{ kind, value },
      without: { [kind]: values.filter((other) => other !== value) },
    }));
  };
  const everywhere: FindPart = { kind: 'scope', value: 'file', without: { scope: 'graph' } };
  return [
    ...single('text'),
    ...several('grades'),
    ...several('overflows'),
    ...several('reasons'),
    ...TEXT_CONDITIONS.flatMap(({ key }) => single(key)),
    ...(find.scope === 'file' ? [everywhere] : []),
  ];
}

/** Whether there is more to say than the search field shows anyway. */
export function isCombined(parts: readonly FindPart[]): boolean {
  return parts.some(({ kind }) => kind !== 'text' && kind !== 'scope');
}
