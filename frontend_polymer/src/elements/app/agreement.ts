/** Milliseconds within which the second press counts: as long as the question can be read. */
const TIME = 4000;

/** What changes the file from one key is asked for twice. */
export class Agreement {
  private asked = '';
  private until = 0;

  /** Whether the same was asked a moment ago. */
  isAgreed(name: string): boolean {
    const isAgreed = this.asked === name && performance.now() < this.until;
    this.asked = isAgreed ? '' : name;
    this.until = performance.now() + TIME;
    return isAgreed;
  }
}
