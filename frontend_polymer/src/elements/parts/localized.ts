import { PolymerElement } from '@polymer/polymer/polymer-element.js';

import { onLanguageChange, texts, type Texts } from '../../i18n';

/** An element whose template reads `text`, the texts of the current language. */
export class LocalizedElement extends PolymerElement {
  static get properties(): object {
    return { text: { type: Object, value: () => texts() } };
  }

  declare text: Texts;
  private stopListening: (() => void) | undefined;

  override connectedCallback(): void {
    super.connectedCallback();
    this.text = texts();
    this.stopListening = onLanguageChange((next) => (this.text = next));
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.stopListening?.();
  }
}
