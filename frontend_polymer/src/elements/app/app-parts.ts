import { html } from '@polymer/polymer/polymer-element.js';

import '../details/ga-details';
import '../find/ga-find';
import '../find/ga-find-line';
import './ga-help';
import '../graph/ga-hierarchy';
import '../graph/ga-legend';
import '../verdict/ga-verdict-line';
import './ga-exposed';
import './ga-message';
import './ga-notice';
import '../overview/ga-overview';
import './ga-palette';
import '../parts/ga-progress';
import '../parts/ga-toast';
import './ga-toolbar';
import '../graph/ga-view-tools';

/** The parts of `ga-app`, and what of the session's state each of them gets. */
export const appParts = html`<ga-toolbar
    id="toolbar"
    role="banner"
    session="[[session]]"
    state="[[state]]"
    theme-choice="[[themeChoice]]"
    on-theme-choice="_themeChosen"
    on-help="help"
    on-overview="toggleOverview"
    on-copy-link="copyLink"
    is-list-open="{{isListOpen}}"
    on-step-hit="_stepHit"
  ></ga-toolbar>
  <ga-exposed catalog="[[state.catalog]]"></ga-exposed>
  <ga-notice session="[[session]]" state="[[state]]"></ga-notice>
  <div class="stage">
    <div class="work" inert$="[[_isOverview(state)]]">
      <ga-progress active="[[_busy(state)]]" message="[[_waiting(state, text)]]"></ga-progress>
      <div class="bar">
        <ga-verdict-line
          id="verdictLine"
          role="region"
          aria-label$="[[text.verdict.title]]"
          state="[[state]]"
          on-step-suspect="_stepSuspect"
          on-step-error="_stepError"
        ></ga-verdict-line>
        <ga-view-tools
          session="[[session]]"
          state="[[state]]"
          zoom="[[zoom]]"
          layers="[[layers]]"
          on-view-command="_run"
          on-show-node="_showNode"
        ></ga-view-tools>
      </div>
      <ga-find-line
        role="region"
        aria-label$="[[text.find.active]]"
        session="[[session]]"
        state="[[state]]"
      ></ga-find-line>
      <div class="split">
        <div class="column">
          <main>
            <div class="graph" hidden$="[[_message(state)]]">
              <ga-hierarchy
                id="hierarchy"
                hidden$="[[_message(state)]]"
                session="[[session]]"
                state="[[state]]"
                palette="[[palette]]"
                zoom="{{zoom}}"
                layers="{{layers}}"
                on-look-change="_lookChanged"
              ></ga-hierarchy>
            </div>
            <ga-message
              hidden$="[[!_message(state)]]"
              session="[[session]]"
              problem="[[state.problem]]"
              catalog="[[state.catalog]]"
              file="[[state.view.file]]"
              on-retry="_retry"
              on-show-file="_showFile"
            ></ga-message>
            <ga-legend
              aria-label$="[[text.legend.label]]"
              hidden$="[[_message(state)]]"
              session="[[session]]"
              state="[[state]]"
              on-step-hit="_stepHit"
            ></ga-legend>
          </main>
          <ga-details
            id="details"
            role="region"
            aria-label$="[[text.details.label]]"
            session="[[session]]"
            state="[[state]]"
            hidden$="[[_message(state)]]"
            on-go-to="_goTo"
          ></ga-details>
        </div>
        <ga-find
          role="region"
          aria-label$="[[text.find.panel]]"
          hidden$="[[!_listShown(state, isListOpen)]]"
          is-open="[[_listShown(state, isListOpen)]]"
          session="[[session]]"
          state="[[state]]"
          on-choose-hit="_chooseHit"
        ></ga-find>
      </div>
    </div>
    <ga-overview
      id="overview"
      hidden$="[[!_isOverview(state)]]"
      role="region"
      aria-label$="[[text.overview.label]]"
      state="[[state]]"
      palette="[[palette]]"
      on-enter="_enter"
      on-show-node="_showNode"
    ></ga-overview>
  </div>
  <ga-help id="helpDialog"></ga-help>
  <ga-palette id="palette"></ga-palette>
  <ga-toast id="toast"></ga-toast>`;
