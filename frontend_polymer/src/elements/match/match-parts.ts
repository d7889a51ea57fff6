import { html } from '@polymer/polymer/polymer-element.js';

/** What `ga-match` is made of. */
export const matchParts = html` <p class="refusal" hidden$="[[!refusal]]">[[refusal]]</p>
  <div class="columns" hidden$="[[_any(refusal)]]">
    <section hidden$="[[_hasPartner(state.detail)]]">
      <header>
        <h3>[[_title(state, text)]]</h3>
        <button id="pick" aria-pressed$="[[_pressed(state.pick)]]" on-click="_pick">
          [[text.match.pick]]
        </button>
      </header>
      <div class="candidates" role="radiogroup" aria-label$="[[_title(state, text)]]">
        <template is="dom-repeat" items="[[choices]]">
          <label>
            <input type="radio" name="candidate" checked="[[item.isChosen]]" on-change="_choose" />
            <span class="mono cut" title="[[item.name]]">[[item.name]]</span>
            <span class="muted cut" title="[[item.facts]]">[[item.facts]]</span>
          </label>
        </template>
        <p class="muted" hidden$="[[_any(choices.length)]]">[[text.match.noCandidates]]</p>
      </div>
    </section>
    <section>
      <div class="options">
        <label hidden$="[[!_hasBelow(state)]]"
          ><input id="descendants" type="checkbox" on-change="_preview" />
          [[text.match.descendants]]</label
        >
        <label hidden$="[[!_hasElsewhere(state)]]"
          ><input id="everywhere" type="checkbox" on-change="_preview" />
          [[text.match.everywhere]]</label
        >
        <label hidden$="[[!_hasConflicts(report, replaces)]]"
          ><input id="replace" type="checkbox" on-change="_replace" /> [[text.match.replace]]</label
        >
        <label hidden$="[[!_twinLabel(report, twin, text)]]"
          ><input id="twin" type="checkbox" on-change="_twin" /> [[_twinLabel(report, twin,
          text)]]</label
        >
      </div>
      <div id="preview" role="status" tabindex="0"></div>
    </section>
  </div>
  <footer hidden$="[[!_writable(state)]]">
    <button
      id="end"
      hidden$="[[!_hasPartner(state.detail)]]"
      disabled$="[[!_canApply(report, busy)]]"
      on-click="_apply"
    >
      [[text.match.unmatch]]
    </button>
    <button
      id="undo"
      disabled$="[[!edits.undo]]"
      title="[[_editHint(edits.undo, text.match.undoHint)]]"
      on-click="_undo"
    >
      [[text.match.undo]]
    </button>
    <button
      id="redo"
      disabled$="[[!edits.redo]]"
      title="[[_editHint(edits.redo, text.match.redoHint)]]"
      on-click="_redo"
    >
      [[text.match.redo]]
    </button>
    <a id="export" href="[[_exportUrl(state.view.file)]]" download="matches.json"
      >[[text.match.exportFile]]</a
    >
    <ga-import carry-out="[[carryOut]]"></ga-import>
    <span id="outcome" role="status">[[outcome]]</span>
    <div class="who" hidden$="[[_any(refusal)]]">
      <input
        id="author"
        maxlength="200"
        placeholder="[[text.match.author]]"
        aria-label="[[text.match.author]]"
      />
      <input
        id="reason"
        maxlength="2000"
        placeholder="[[text.match.reason]]"
        aria-label="[[text.match.reason]]"
      />
      <button
        id="apply"
        class="primary"
        hidden$="[[_hasPartner(state.detail)]]"
        disabled$="[[!_canApply(report, busy)]]"
        on-click="_apply"
      >
        [[text.match.match]]
      </button>
    </div>
  </footer>`;
