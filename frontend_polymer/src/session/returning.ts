// When the user comes back: to the browser's tab, to its window, or to ours among TensorBoard's.

/** New files are looked for this often at most. */
const PAUSE_MS = 5000;

/** Calls the listener whenever the viewer can be seen again; returns how to stop it. */
export function onReturn(listener: () => void): () => void {
  let last = performance.now();
  let wasSeen = true;
  const returned = () => {
    if (document.visibilityState !== 'visible' || performance.now() - last < PAUSE_MS) return;
    last = performance.now();
    listener();
  };
  // A frame that TensorBoard hides has no size.
  const observer = new IntersectionObserver(([entry]) => {
    const isSeen = entry?.isIntersecting === true;
    if (isSeen && !wasSeen) returned();
    wasSeen = isSeen;
  });
  observer.observe(document.documentElement);
  document.addEventListener('visibilitychange', returned);
  window.addEventListener('focus', returned);
  return () => {
    observer.disconnect();
    document.removeEventListener('visibilitychange', returned);
    window.removeEventListener('focus', returned);
  };
}

/** Whether the keys belong to nobody yet, around us or in here. */
export function isFocusFree(): boolean {
  const isFree = ({ activeElement, body }: Document) =>
    activeElement === null || activeElement === body;
  try {
    return isFree(document) && (window.parent === window || isFree(window.parent.document));
  } catch {
    return false; // another origin embeds us
  }
}
