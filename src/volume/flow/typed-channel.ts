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

  /** Subscribes until the answer is disposed of, or the process ends. */
  subscribe(listener: (message: Message) => void): Disposable {
    // Only `publish` sends messages.
    const heard = (message: unknown) => listener(message as Message);
    this.#channel.subscribe(heard);
    return { [Symbol.dispose]: () => void this.#channel.unsubscribe(heard) };
  }
}
