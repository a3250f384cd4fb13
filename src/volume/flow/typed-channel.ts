import { type Channel, channel } from 'node:diagnostics_channel';

/** Publishes events to any subscribers. Costs almost nothing without subscribers. */
export class TypedChannel<Message extends object> {
  readonly #channel: Channel;

  constructor(name: `holdfast:${string}`) {
    this.#channel = channel(name);
  }

  publish(message: Message): void {
    this.#channel.publish(message);
  }

  /** Subscribes until the process ends. */
  subscribe(listener: (message: Message) => void): void {
    // Only `publish` sends messages.
    this.#channel.subscribe((message) => listener(message as Message));
  }
}
