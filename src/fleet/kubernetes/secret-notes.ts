import { z } from 'zod';
import { Unavailable } from '../../volume/errors.ts';
import { inOneSentence, parseJsonInput } from '../../volume/parse-input.ts';
import type { KubernetesApi } from './api.ts';
import { changeTexts, type ObjectPlace, readTexts, type Texts } from './stored-object.ts';

export interface SecretNotesOptions<T> {
  readonly api: KubernetesApi;
  readonly place: ObjectPlace;
  /** Key beside the certificates in the controller's Secret: all replicas see it, and no other right is needed. */
  readonly key: string;
  readonly schema: z.ZodType<T>;
}

/** Facts about nodes that all replicas share and that survive their restarts: a note for each, by the node's name. */
export class SecretNotes<T> {
  readonly #options: SecretNotesOptions<T>;

  constructor(options: SecretNotesOptions<T>) {
    this.#options = options;
  }

  /** @throws Unavailable */
  async read(): Promise<ReadonlyMap<string, T>> {
    const { api, place } = this.#options;
    return this.#notesIn(await readTexts(api, 'Secret', place));
  }

  /**
   * Applies one change, despite concurrent changes of the Secret, and returns the notes afterwards.
   * @param change returns true if it changed the map, which is then written; it may run several times
   * @throws Unavailable, also if the notes could not be read again
   */
  async change(change: (notes: Map<string, T>) => boolean): Promise<ReadonlyMap<string, T>> {
    const { api, key, place } = this.#options;
    return changeTexts(api, 'Secret', place, (current) => {
      const notes = this.#notesIn(current);
      if (!change(notes)) return { result: notes, put: undefined };
      if (current === undefined) throw new Unavailable(`There is no Secret ${place.name} yet: a controller makes it.`);
      const text = JSON.stringify(Object.fromEntries(notes));
      // One that cannot be read would make all of them unreadable.
      this.#notesIn({ [key]: text });
      return { result: notes, put: { [key]: text } };
    });
  }

  #notesIn(texts: Texts | undefined): Map<string, T> {
    const { key, place, schema } = this.#options;
    const text = texts?.[key] ?? '';
    if (text === '') return new Map();
    const parsed = parseJsonInput(z.record(z.string(), schema), text);
    if ('data' in parsed) return new Map(Object.entries(parsed.data));
    throw new Unavailable(`${key} in Secret ${place.name} cannot be read: ${inOneSentence(parsed.mistakes)}`);
  }
}
