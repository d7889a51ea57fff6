/**
 * What `make` says, and the same answer as long as nothing has changed that it goes by. Elements are
 * asked with every change of state, whatever part of it is another, and draw a new list anew.
 */
export function kept<Asked extends readonly unknown[], Answer>(
  goesBy: (...asked: Asked) => readonly unknown[],
  make: (...asked: Asked) => Answer,
): (...asked: Asked) => Answer {
  let last: { readonly by: readonly unknown[]; readonly answer: Answer } | null = null;
  return (...asked) => {
    const by = goesBy(...asked);
    if (!last?.by.every((part, at) => Object.is(part, by[at])))
      last = { by, answer: make(...asked) };
    return last.answer;
  };
}
