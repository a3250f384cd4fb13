import { z } from 'zod';
import { Unavailable } from '../../volume/errors.ts';
import { inOneSentence, parseJsonInput } from '../../volume/parse-input.ts';
import { readAnswer } from './answer.ts';
import { ApiRefusal, type KubernetesApi } from './api.ts';
import { type SecretPlace, secretPath } from './secret.ts';

const secret = z.looseObject({ data: z.record(z.string(), z.string()).nullish() });

const [notFound, conflict] = [404, 409];
const mostTurns = 5;

export interface SecretNotesOptions<T> {
  readonly api: KubernetesApi;
  readonly place: SecretPlace;
  /** Beside the certificates in the controller's own Secret: all replicas see it, and no other right is needed. */
  readonly key: string;
  readonly schema: z.ZodType<T>;
}

/** What is to be known of nodes by all replicas, over their restarts: a note for each, by the node's name. */
export class SecretNotes<T> {
  readonly #options: SecretNotesOptions<T>;

  constructor(options: SecretNotesOptions<T>) {
    this.#options = options;
  }

  /** @throws Unavailable */
  async read(): Promise<ReadonlyMap<string, T>> {
    return (await this.#read()).notes;
  }

  /**
   * Does so once, whoever else changes the Secret, and returns what is noted then.
   * @param change what it leaves is written if it says that it has changed something; it may run several times
   * @throws Unavailable
   */
  async change(change: (notes: Map<string, T>) => boolean): Promise<ReadonlyMap<string, T>> {
    const { api, key, place } = this.#options;
    for (let turn = 1; ; turn++) {
      const { notes, object } = await this.#read();
      if (!change(notes)) return notes;
      if (object === undefined) throw new Unavailable(`There is no Secret ${place.name} yet: a controller makes it.`);
      const text = JSON.stringify(Object.fromEntries(notes));
      const body = { ...object, data: { ...object.data, [key]: Buffer.from(text).toString('base64') } };
      try {
        await api.call({ method: 'PUT', path: secretPath(place), body, what: `change Secret ${place.name}` });
        return notes;
      } catch (error) {
        if (!(error instanceof ApiRefusal && error.status === conflict) || turn >= mostTurns) throw error;
      }
    }
  }

  async #read() {
    const { api, key, place, schema } = this.#options;
    const what = 'show a Secret';
    let answer: unknown;
    try {
      answer = await api.call({ path: secretPath(place), what });
    } catch (error) {
      if (!(error instanceof ApiRefusal && error.status === notFound)) throw error;
      return { object: undefined, notes: new Map<string, T>() };
    }
    const object = readAnswer(secret, answer, what);
    const text = Buffer.from(object.data?.[key] ?? '', 'base64').toString();
    if (text === '') return { object, notes: new Map<string, T>() };
    const parsed = parseJsonInput(z.record(z.string(), schema), text);
    if ('data' in parsed) return { object, notes: new Map(Object.entries(parsed.data)) };
    throw new Unavailable(`${key} in Secret ${place.name} cannot be read: ${inOneSentence(parsed.mistakes)}`);
  }
}
