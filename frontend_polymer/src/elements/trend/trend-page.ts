import type { Fixed } from '../../data/trend';
import type { Trend } from '../../generated/graph_pb';
import type { Session } from '../../session/session';
import { LocalizedElement } from '../parts/localized';
import { translated } from '../parts/words';
import { fill } from './trend-controls';
import { Questions, type Question } from './trend-questions';
import { placesOf, targetsOf } from './trend-shown';

/** The controls of the page of trends: what they offer, what is chosen, and what went wrong. */
export class TrendPage extends LocalizedElement {
  declare session: Session;
  declare problem: string;
  protected trend: Trend | null = null;
  protected readonly questions = new Questions();

  protected fillAxes(): void {
    const { kinds, statistics } = this.trend!;
    const { trend: words } = this.text;
    const called = (known: Readonly<Record<string, string>>) => (code: string) =>
      [code, translated(known, code, code)] as [string, string];
    fill(this.inside('statistic'), statistics.map(called(words.statistics)));
    fill(this.inside('kind'), [['', words.allKinds], ...kinds.map(called(words.kinds))]);
    this.fillPlaces();
  }

  protected fillPlaces(): void {
    fill(
      this.inside('at'),
      placesOf(this.trend!, this.value('fixed') as Fixed, this.targets, this.text),
    );
  }

  protected get words() {
    return { text: this.text, width: this.map.clientWidth };
  }

  protected get targets(): number[] {
    return targetsOf(this.trend!, this.value('kind'), this.value('filter'));
  }

  /** What is wrong is said on the page. */
  protected async guarded(question: Question, run: (signal: AbortSignal) => Promise<void>) {
    this.problem = '';
    const problem = await this.questions.ask(question, run);
    if (problem !== null) this.failed(problem);
  }

  protected failed(problem: string): void {
    this.problem = problem;
  }

  protected value(id: string): string {
    return (this.inside(id) as HTMLSelectElement | HTMLInputElement).value;
  }

  protected inside(id: string): HTMLElement {
    return this.$[id] as HTMLElement;
  }

  protected get dialog(): HTMLDialogElement {
    return this.inside('dialog') as HTMLDialogElement;
  }

  protected get map(): HTMLElement {
    return this.inside('map');
  }

  protected get canvas(): HTMLCanvasElement {
    return this.inside('canvas') as HTMLCanvasElement;
  }
}
