/**
 * Scrolls an element into view of what scrolls it, and nothing around that: `scrollIntoView` moves
 * the whole page in a small window.
 */
export function showWithin(scroller: HTMLElement, element: Element): void {
  const outer = scroller.getBoundingClientRect();
  const inner = element.getBoundingClientRect();
  if (inner.bottom > outer.bottom) scroller.scrollTop += inner.bottom - outer.bottom;
  if (inner.top < outer.top) scroller.scrollTop -= outer.top - inner.top;
  if (inner.width > outer.width) return; // its beginning is in view, or was scrolled away on purpose
  if (inner.right > outer.right) scroller.scrollLeft += inner.right - outer.right;
  if (inner.left < outer.left) scroller.scrollLeft -= outer.left - inner.left;
}
