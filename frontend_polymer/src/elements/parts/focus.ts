// Where the keys go, and who may take them along.

/** The element that has the focus, however deep it lies; null where nobody has it. */
function focused(): Element | null {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  return at === document.body ? null : at;
}

/**
 * Gives the focus once an answer is there. Who has turned to something else meanwhile, a field to
 * type in or a menu, keeps it.
 */
export function focusLater(give: () => void): () => void {
  const before = focused();
  return () => {
    const now = focused();
    if (now === null || now === before) give();
  };
}

/** Whether the focus is within an element, or nobody's. */
export function ownsFocus(element: Element): boolean {
  const now = focused();
  let at: Node | null = now;
  while (at && at !== element) at = at instanceof ShadowRoot ? at.host : at.parentNode;
  return at !== null || now === null;
}
