/** Of each kind only the last question counts. */
export type Question = 'axes' | 'cells' | 'graphs' | 'loss' | 'moves';

/** What was asked of the server and not answered. */
export class Questions {
  private readonly running = new Map<Question, AbortController>();

  /** What went wrong, if anything; an answer that came too late says nothing. */
  async ask(
    question: Question,
    run: (signal: AbortSignal) => Promise<void>,
  ): Promise<string | null> {
    this.drop(question);
    const own = new AbortController();
    this.running.set(question, own);
    try {
      await run(own.signal);
    } catch (error) {
      if (!own.signal.aborted) return error instanceof Error ? error.message : String(error);
    }
    return null;
  }

  drop(question: Question): void {
    this.running.get(question)?.abort();
  }

  dropAll(): void {
    for (const one of this.running.values()) one.abort();
  }
}
