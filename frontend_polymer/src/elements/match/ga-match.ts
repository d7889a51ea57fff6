import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import { asProblem } from '../../data/problem';
import { ask, change } from '../../data/api';
import {
  Side,
  type EditState,
  type MatchCandidate,
  type MatchReport,
} from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import type { NodeRef } from '../../layout/hierarchy';
import { fileOf, hasBench, type AppState } from '../../session/app-state';
import type { Session } from '../../session/session';
import { focusLater } from '../parts/focus';
import { readSetting, writeSetting } from '../../data/settings';
import '../parts/ga-icon';
import type { Import } from './ga-import';
import './ga-import';
import { LocalizedElement } from '../parts/localized';
import {
  bestOf,
  canApply,
  candidatesTitle,
  choicesOf,
  editHint,
  hasBelow,
  exportUrl,
  hasConflicts,
  hasElsewhere,
  isWritable,
  messageOf,
  outcomeOf,
  twinLabel,
  type Choice,
  type Chosen,
} from './match-choices';
import { matchParts } from './match-parts';
import { matchPreview } from './match-preview';
import { baseOf, isMatched, matchRequest } from './match-request';
import { matchStyles } from './match-styles';
import { controls } from '../parts/styles';

const AUTHOR = 'match.author';

/** Matching the selected node by hand: candidates, what would change, undo, match files. */
export class GaMatch extends LocalizedElement {
  static get template() {
    return html`${controls}${matchStyles}${matchParts}`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      state: Object,
      active: Boolean,
      candidates: { type: Array, value: () => [] },
      chosen: { type: Object, value: null },
      report: { type: Object, value: null },
      replaces: { type: Boolean, value: false },
      twin: { type: Boolean, value: false },
      busy: { type: Boolean, value: false },
      outcome: { type: String, value: '' },
      edits: { type: Object, computed: '_edits(state)' },
      refusal: { type: String, computed: '_refusal(state, text)' },
      choices: { type: Array, computed: '_choices(candidates, chosen, text)' },
    };
  }

  static get observers() {
    return [
      '_selected(state.detail, active)',
      '_picked(state.picked)',
      '_showPreview(report, text, state.detail)',
    ];
  }

  declare session: Session;
  declare state: AppState;
  declare active: boolean;
  declare candidates: readonly MatchCandidate[];
  /** Index of the node to match with. */
  declare chosen: Chosen | null;
  declare report: MatchReport | null;
  declare replaces: boolean;
  declare twin: boolean;
  declare busy: boolean;
  declare outcome: string;
  declare refusal: string;
  readonly _choices = choicesOf;
  readonly _twinLabel = twinLabel;
  readonly _title = candidatesTitle;
  readonly _editHint = editHint;
  readonly _hasBelow = hasBelow;
  readonly _hasElsewhere = hasElsewhere;
  readonly _hasConflicts = hasConflicts;
  readonly _canApply = canApply;
  readonly _hasPartner = isMatched;
  readonly _writable = isWritable;
  readonly _exportUrl = exportUrl;
  readonly _any = Boolean;
  readonly _pressed = String;
  readonly carryOut: Import = (content, reason, replace, dryRun) =>
    this.upToDate(async () => {
      const who = { author: this.field('author').value.trim(), reason };
      const report = await change(this.session.fetch, 'matches', {
        ...baseOf(this.state),
        ...who,
        content,
        replace,
        dryRun,
      });
      if (!dryRun) await this.tell(report);
      return report;
    });
  private asked = new AbortController();
  private shown: AppState['detail'] = null;
  private wasActive = false;
  /** How many were asked for; only the answer to the last one is shown. */
  private previews = 0;
  /** Indexes of the pair that was taken apart last, of both sides. */
  private ended: readonly (number | undefined)[] = [];
  private taken: NodeRef | null = null;

  override ready(): void {
    super.ready();
    this.addEventListener('keydown', (event) => this.key(event));
    this.field('author').value = readSetting(AUTHOR) ?? '';
  }

  _edits(state: AppState): EditState | undefined {
    return fileOf(state)?.edits;
  }

  _refusal(state: AppState, text: Texts): string {
    if (!hasBench(state)) return text.match.notComparable;
    if (!this._writable(state)) return text.match.readOnly;
    return state.selected ? '' : text.match.none;
  }

  /** Another node: its candidates, or its match to end. */
  async _selected(detail: AppState['detail'], active: boolean): Promise<void> {
    // Observers of a part run whenever the state is another, whatever part of it has changed.
    if (detail === this.shown && active === this.wasActive) return;
    this.shown = detail;
    this.wasActive = active;
    this.asked.abort();
    this.asked = new AbortController();
    const { signal } = this.asked;
    const { selected, view } = this.state;
    this.candidates = [];
    this.chosen = this.report = null;
    this.replaces = this.twin = false;
    for (const id of ['replace', 'twin'])
      if (this.field(id).checked) this.field(id).checked = false;
    if (!active || !detail || !selected || this.refusal) return;
    if (isMatched(this.state.detail)) {
      await this._preview();
      return;
    }
    this.taken = null;
    this._picked(this.state.picked);
    const { file, step, rank } = view;
    try {
      const place = { file, step, rank, side: selected.side, index: selected.index };
      const { candidates } = await ask(this.session.fetch, 'candidates', place, signal);
      if (signal.aborted) return;
      this.candidates = candidates;
      await this.preselect();
    } catch (error) {
      if (!signal.aborted) this.outcome = messageOf(error);
    }
  }

  /** The best candidate, unless somebody has chosen meanwhile. */
  private async preselect(): Promise<void> {
    const best = bestOf(this.candidates.filter((one) => !this.isEnded(one.index)));
    if (this.chosen || !best) return;
    this.chosen = best;
    await this._preview();
  }

  /** Whether somebody has just taken the selected node and this candidate apart. */
  private isEnded(candidate: number): boolean {
    const { selected } = this.state;
    const pair =
      selected?.side === Side.BENCH ? [candidate, selected.index] : [selected?.index, candidate];
    return this.ended.join() === pair.join();
  }

  _picked(node: NodeRef | null): void {
    if (node === this.taken || !this.active || this.state.detailBusy) return;
    this.taken = node;
    const graph = node && this.state.graphs?.[node.side];
    if (!graph) return;
    this.chosen = { index: node.index, name: graph.name(node.index) };
    void this._preview().then(focusLater(() => this.focusNext()));
  }

  _choose(event: Event & { model: { item: Choice } }): void {
    const { index, name } = event.model.item;
    this.chosen = { index, name };
    void this._preview();
  }

  _replace(): void {
    this.replaces = this.field('replace').checked;
    void this._preview();
  }

  _twin(): void {
    this.twin = this.field('twin').checked;
    void this._preview();
  }

  _pick(): void {
    this.session.startPick();
  }

  async _preview(): Promise<void> {
    await this.run(async () => {
      const preview = ++this.previews;
      const request = this.request(true);
      const report = request && (await change(this.session.fetch, 'match', request));
      if (preview === this.previews) this.report = report;
    });
  }

  async _apply(): Promise<void> {
    const request = this.request(false);
    if (!request) return;
    writeSetting(AUTHOR, request.author);
    const { detail } = this.state;
    this.ended = isMatched(detail) ? [detail?.npu?.index, detail?.bench?.index] : [];
    await this.change(() => change(this.session.fetch, 'match', request));
  }

  _undo(): Promise<void> {
    return this.change(() =>
      change(this.session.fetch, 'undo', { ...baseOf(this.state), dryRun: false }),
    );
  }

  _redo(): Promise<void> {
    return this.change(() =>
      change(this.session.fetch, 'redo', { ...baseOf(this.state), dryRun: false }),
    );
  }

  _showPreview(report: MatchReport | null, text: Texts): void {
    const lines = matchPreview(report, text);
    (this.$['preview'] as HTMLElement).replaceChildren(...lines);
  }

  /** Enter confirms, unless there is a question to answer first. */
  private focusNext(): void {
    const isAsked = (this.report?.conflicts.length ?? 0) > 0;
    requestAnimationFrame(() => this.field(isAsked ? 'replace' : 'apply').focus());
  }

  private request(dryRun: boolean) {
    return matchRequest(this.state, this.chosen, {
      dryRun,
      author: this.field('author').value.trim(),
      reason: this.field('reason').value.trim(),
      descendants: this.field('descendants').checked && hasBelow(this.state),
      everywhere: this.field('everywhere').checked && hasElsewhere(this.state),
      replace: this.replaces,
      twin: this.twin,
    });
  }

  /** Writes, says what came of it, and shows the graphs as they are now. */
  private async change(send: () => Promise<MatchReport>): Promise<void> {
    await this.run(async () => this.tell(await send()));
  }

  private async tell(report: MatchReport): Promise<void> {
    // What comes next has to be based on the file as it is now.
    await this.session.reload();
    this.outcome = outcomeOf(report, this.text);
    this.leave();
  }

  /** Escape leads back to where the nodes are, Enter in a field matches what is chosen. */
  private key(event: KeyboardEvent): void {
    const isInField = event.composedPath()[0] instanceof HTMLInputElement;
    const isFree = !isMatched(this.state.detail) && canApply(this.report, this.busy);
    if (event.key === 'Escape') this.leave();
    else if (event.key === 'Enter' && isInField && isFree) void this._apply();
    else return;
    event.stopPropagation();
  }

  private leave(): void {
    this.dispatchEvent(new CustomEvent('focus-graph', { bubbles: true, composed: true }));
  }

  private async run(work: () => Promise<void>): Promise<void> {
    this.busy = true;
    try {
      await this.upToDate(work);
    } catch (error) {
      this.outcome = messageOf(error);
    } finally {
      this.busy = false;
    }
  }

  /** Where somebody else was faster, shows what they did. */
  private async upToDate<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (asProblem(error).status === 409) await this.session.reload();
      throw error;
    }
  }

  private field(id: string): HTMLInputElement {
    return this.$[id] as HTMLInputElement;
  }
}

customElements.define('ga-match', GaMatch);
