/** Milliseconds: pages that nobody sees draw no frames. */
const LATEST = 100;

/** Once the frame is drawn that shows what has been changed just now. */
export function drawn(): Promise<void> {
  return new Promise((done) => {
    if (typeof requestAnimationFrame === 'undefined') {
      done();
      return;
    }
    requestAnimationFrame(() => setTimeout(done));
    setTimeout(done, LATEST);
  });
}
