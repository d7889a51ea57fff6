import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-if.js';

import {
  Grade,
  MatchAction,
  Overflow,
  Side,
  type NodeDetail,
  type NodeRecord,
} from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import type { NodeRef } from '../../layout/hierarchy';
import { fileOf, hasBench, pairOf, type AppState } from '../../session/app-state';
import { formatExact, formatNumber, rankList } from '../parts/format';
import '../parts/ga-copy';
import '../parts/ga-icon';
import { gradeStyle, overflowStyle } from '../parts/grade-style';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';
import { gradeName, kindName, overflowName, translated } from '../parts/words';

/** One line about the selected node: its name, its grade, its match or why there is none. */
export class GaNodeSummary extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          align-items: center;
          gap: 2px 8px;
          min-height: 28px;
          flex-wrap: var(--ga-summary-wrap, nowrap);
        }
        @media (max-width: 1100px) {
          :host {
            flex-wrap: wrap;
          }
        }
        h2 {
          font: 600 13px/20px var(--ga-mono);
          margin: 0;
          user-select: all;
          direction: ltr;
        }
        .chip {
          padding: 0 8px;
          border-radius: 10px;
          border: 1px solid var(--ga-border);
          white-space: nowrap;
          flex: none;
        }
        .chip.grade,
        #overflow {
          font-weight: 600;
          font-variant-numeric: tabular-nums;
        }
        #operatorCheck[data-status='failed'] {
          border-color: var(--ga-danger);
          color: var(--ga-danger);
          font-weight: 600;
        }
        .nothing {
          color: var(--ga-muted);
        }
        .match {
          display: flex;
          align-items: center;
          gap: 6px;
          min-width: 0;
          flex: 0 1 auto;
        }
        .match button {
          max-width: 100%;
          min-width: 0;
        }
        #confirm,
        #reject {
          flex: none;
        }
      </style>
      <span class="nothing" hidden$="[[state.selected]]">[[text.details.nothing]]</span>
      <template is="dom-if" if="[[record]]">
        <span class="chip">[[_kind(record, text)]]</span>
        <h2 class="cut" title="[[_path(record)]]">[[record.name]]</h2>
        <ga-copy value="[[record.name]]" label="[[text.details.copyName]]"></ga-copy>
        <span class="chip" hidden$="[[!_microStep(state, record, text)]]">
          [[_microStep(state, record, text)]]
        </span>
        <span class="chip" hidden$="[[!record.originRanks.length]]" title="[[text.origin.hint]]">
          [[_origin(record, text)]]
        </span>
        <span class="chip" hidden$="[[!record.isRecompute]]">[[text.details.recompute]]</span>
        <span
          class="chip grade"
          hidden$="[[!isComparison]]"
          title="[[_errorTitle(detail, text)]]"
          style$="[[_gradeStyle(record, detail)]]"
        >
          [[_grade(record, detail, text)]]
        </span>
        <span
          id="overflow"
          class="chip"
          hidden$="[[!record.overflow]]"
          title="[[_overflow(record, text, 'hint')]]"
          style$="[[_overflowStyle(record)]]"
          >[[text.legend.overflow]]: [[_overflow(record, text, 'name')]]</span
        >
        <span
          id="operatorCheck"
          class="chip"
          data-status$="[[record.operatorCheck.status]]"
          hidden$="[[!record.operatorCheck]]"
          title="[[_checkTitle(record, text)]]"
          >[[_check(record, text)]]</span
        >
        <span class="match" hidden$="[[!isComparison]]">
          <span class="cut" title="[[_reasonTitle(record, text)]]"
            >[[_match(record, partner, text)]]</span
          >
          <button
            id="jump"
            class="plain"
            hidden$="[[!_target(record, partner)]]"
            title="[[_jumpLabel(record, partner, text)]]"
            aria-label="[[_jumpLabel(record, partner, text)]]"
            on-click="_jump"
          >
            <span class="mono cut">[[_shownTarget(record, partner)]]</span>
            <ga-icon name="jump"></ga-icon>
          </button>
          <button
            id="confirm"
            hidden$="[[!_canConfirm(state, record)]]"
            title="[[text.match.confirm]] (y)"
            on-click="_confirm"
          >
            [[text.match.confirmShort]]
          </button>
          <button
            id="reject"
            hidden$="[[!_canReject(state, record, detail)]]"
            title="[[_rejectTitle(detail, text)]] (Y)"
            on-click="_reject"
          >
            [[text.match.rejectShort]]
          </button>
        </span>
      </template>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      state: Object,
      detail: { type: Object, computed: '_detail(state)' },
      record: { type: Object, computed: '_record(detail, state.selected)' },
      partner: { type: Object, computed: '_partner(detail, state.selected)' },
      isComparison: { type: Boolean, computed: '_isComparison(state)' },
    };
  }

  declare state: AppState;
  declare detail: NodeDetail | null;
  declare record: NodeRecord | undefined;
  declare partner: NodeRecord | undefined;

  _detail(state: AppState): NodeDetail | null {
    return state.detail;
  }

  _record(detail: NodeDetail | null, selected: NodeRef | null): NodeRecord | undefined {
    return selected?.side === Side.BENCH ? detail?.bench : detail?.npu;
  }

  _partner(detail: NodeDetail | null, selected: NodeRef | null): NodeRecord | undefined {
    return selected?.side === Side.BENCH ? detail?.npu : detail?.bench;
  }

  _isComparison(state: AppState): boolean {
    return hasBench(state);
  }

  _kind(record: NodeRecord, text: Texts): string {
    return kindName(record.kind, text);
  }

  _path(record: NodeRecord): string {
    return [...record.path, record.name].join('\n');
  }

  _microStep(state: AppState, record: NodeRecord, text: Texts): string {
    return (pairOf(state)?.microSteps ?? 0) > 1 ? text.details.microStep(record.microStep) : '';
  }

  _origin({ originRanks }: NodeRecord, text: Texts): string {
    const ranks = rankList(originRanks);
    return originRanks.length > 1 ? text.origin.from(ranks) : text.origin.fromOne(ranks);
  }

  /** The grade is kept on the debug side. */
  _grade(record: NodeRecord, detail: NodeDetail, text: Texts): string {
    const { grade, error } = graded(record, detail);
    const name = gradeName(grade, text);
    return error === undefined ? name : `${name} ${formatNumber(error)}`;
  }

  _errorTitle(detail: NodeDetail, text: Texts): string {
    const error = detail.npu?.error;
    return error === undefined ? '' : `${text.details.error}: ${formatExact(error)}`;
  }

  _gradeStyle(record: NodeRecord, detail: NodeDetail): string {
    return gradeStyle(graded(record, detail).grade);
  }

  _overflow({ overflow }: NodeRecord, text: Texts, part: 'name' | 'hint'): string {
    return overflow === Overflow.NONE ? '' : overflowName(overflow, text)[part];
  }

  _overflowStyle({ overflow }: NodeRecord): string {
    return overflow === Overflow.NONE ? '' : overflowStyle(overflow);
  }

  _check({ operatorCheck }: NodeRecord, text: Texts): string {
    if (!operatorCheck) return '';
    const { name, statuses, times } = text.operatorCheck;
    const status = translated<string>(statuses, operatorCheck.status, operatorCheck.status);
    const far =
      operatorCheck.times === undefined ? '' : ` ${times(formatNumber(operatorCheck.times))}`;
    return `${name}: ${status}${far}`;
  }

  _checkTitle({ operatorCheck }: NodeRecord, text: Texts): string {
    if (!operatorCheck) return '';
    const against = translated<string>(text.operatorCheck.against, operatorCheck.compared, '');
    const why = text.verdict.tell(operatorCheck.reason);
    return [text.operatorCheck.hint, against, why].filter(Boolean).join('\n');
  }

  _match(record: NodeRecord, partner: NodeRecord | undefined, text: Texts): string {
    if (partner) {
      const source = translated(text.matchSources, record.matchSource, record.matchSource);
      const matched =
        partner.name === record.name ? text.details.matched : text.details.matchedWith;
      return source ? `${matched} (${source}${evidenceText(record, text)})` : matched;
    }
    const reason = translated(
      text.reasons,
      record.unmatchedReason,
      text.verdict.tell(record.unmatchedDetail),
    );
    const why = [reason || record.unmatchedReason, groupText(this.detail, text)]
      .filter((part) => part !== '')
      .join(': ');
    return record.candidateName ? `${why} · ${text.details.candidate}` : why;
  }

  _canConfirm(state: AppState, { matchSource }: NodeRecord): boolean {
    return matchSource === 'automatic' && fileOf(state)?.writable === true;
  }

  _canReject(state: AppState, record: NodeRecord, detail: NodeDetail | null): boolean {
    const isGrouped = detail?.group !== undefined && fileOf(state)?.writable === true;
    return isGrouped || this._canConfirm(state, record);
  }

  _rejectTitle(detail: NodeDetail | null, { match }: Texts): string {
    return detail?.group ? match.rejectGroup : match.reject;
  }

  _confirm(): void {
    this.judge(MatchAction.CONFIRM);
  }

  _reject(): void {
    this.judge(MatchAction.REJECT);
  }

  private judge(detail: MatchAction): void {
    this.dispatchEvent(new CustomEvent('judge', { detail, bubbles: true, composed: true }));
  }

  _reasonTitle(record: NodeRecord, text: Texts): string {
    return text.verdict.tell(record.unmatchedDetail);
  }

  _target(record: NodeRecord, partner: NodeRecord | undefined): boolean {
    return partner !== undefined || record.candidateIndex !== undefined;
  }

  _targetName(record: NodeRecord, partner: NodeRecord | undefined): string {
    return partner?.name ?? record.candidateName;
  }

  /** A counterpart of the same name needs no second mention. */
  _shownTarget(record: NodeRecord, partner: NodeRecord | undefined): string {
    const name = this._targetName(record, partner);
    return name === record.name ? '' : name;
  }

  _jumpLabel(record: NodeRecord, partner: NodeRecord | undefined, text: Texts): string {
    const label = partner ? text.details.goToPartner : text.details.goToCandidate;
    return `${label}: ${this._targetName(record, partner)}`;
  }

  _jump(): void {
    const { record, partner, state } = this;
    const index = partner?.index ?? record?.candidateIndex;
    if (index === undefined || !state.selected) return;
    const side = state.selected.side === Side.NPU ? Side.BENCH : Side.NPU;
    const detail: NodeRef = { side, index };
    this.dispatchEvent(new CustomEvent('go-to', { detail, bubbles: true, composed: true }));
  }
}

/** What the group of the node does, and how far it is off as a whole. */
function groupText(detail: NodeDetail | null, text: Texts): string {
  const group = detail?.group;
  if (!group) return '';
  const grade = gradeName(group.grade, text);
  const error = group.error === undefined ? '' : ` ${formatNumber(group.error)}`;
  return `${group.operation}, ${group.npu.length} : ${group.bench.length}, ${grade}${error}`;
}

/** What showed that the two belong together, and how sure that is. */
function evidenceText({ matchEvidence, matchCertainty }: NodeRecord, text: Texts): string {
  if (matchCertainty === undefined) return '';
  const why = translated<string>(text.match.evidence, matchEvidence, matchEvidence);
  return `: ${why}, ${text.match.certain(Math.round(100 * matchCertainty))}`;
}

function graded(record: NodeRecord, detail: NodeDetail): { grade: Grade; error?: number } {
  const source = record.grade === Grade.UNMATCHED ? record : (detail.npu ?? record);
  return source.error === undefined
    ? { grade: source.grade }
    : { grade: source.grade, error: source.error };
}

customElements.define('ga-node-summary', GaNodeSummary);
