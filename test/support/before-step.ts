import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { StepName } from '../../src/volume/step.ts';

/** Until it is disposed of, something is done just before a step of the driver that runs in this process, at its first pass. */
export class BeforeStep implements Disposable {
  readonly #hear: (name: unknown) => void;
  hasHappened = false;

  constructor(stepName: StepName, work: () => void) {
    this.#hear = (name) => {
      if (name !== stepName || this.hasHappened) return;
      this.hasHappened = true;
      work();
    };
    subscribe('holdfast:step', this.#hear);
  }

  [Symbol.dispose](): void {
    unsubscribe('holdfast:step', this.#hear);
  }
}
