import { type Channel, channel } from 'node:diagnostics_channel';

/** News for whoever wants to hear it, without knowing who that is. Costs next to nothing while nobody does. */
export class TypedChannel<Message extends object> {
  readonly #channel: Channel;

  constructor(name: `holdfast:${string}`) {
    this.#channel = channel(name);
  }

  publish(message: Message): void {
    this.#channel.publish(message);
  }

  /** From now on, until the process ends. */
  subscribe(listener: (message: Message) => void): void {
    // Only `publish` puts messages in.
    this.#channel.subscribe((message) => listener(message as Message));
  }
}
