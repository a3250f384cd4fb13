/*
 * EC2 wants a name for each attachment: /dev/xvdaa to /dev/xvddx are for volumes beside the root. On machines with NVMe the
 * kernel names devices itself, so these only have to differ.
 */

const letters = 'abcdefghijklmnopqrstuvwxyz';
const names: readonly string[] = ['a', 'b', 'c', 'd'].flatMap((first) =>
  [...(first === 'd' ? letters.slice(0, 24) : letters)].map((second) => `/dev/xvd${first}${second}`),
);

/** The names of devices that are given out here. What EC2 shows is late, so names that were tried are remembered for a while. */
export class DeviceNames {
  /** By machine, then by name: until when it is not given out, unless there is no other. */
  readonly #tried = new Map<string, Map<string, number>>();
  readonly #avoidMs: number;

  /** @param avoidMs a machine may still have another volume under a name that did not work */
  constructor(avoidMs: number) {
    this.#avoidMs = avoidMs;
  }

  /** @param taken the names that EC2 shows @returns undefined: there is none left */
  choose(instance: string, taken: ReadonlySet<string>, nowMs = performance.now()): string | undefined {
    const tried = this.#tried.get(instance);
    const free = names.filter((name) => !taken.has(name));
    const untried = free.find((name) => (tried?.get(name) ?? 0) <= nowMs);
    return untried ?? free.sort((a, b) => (tried?.get(a) ?? 0) - (tried?.get(b) ?? 0))[0];
  }

  /** It is about to be used. */
  note(instance: string, name: string, nowMs = performance.now()): void {
    const tried = this.#tried.get(instance) ?? new Map<string, number>();
    for (const [other, endMs] of tried) if (endMs <= nowMs) tried.delete(other);
    tried.set(name, nowMs + this.#avoidMs);
    this.#tried.set(instance, tried);
  }
}
