import { runToEnd } from './command.ts';

/** kubectl, as the administrator of one cluster. */
export class Kubectl {
  readonly #program: string;
  readonly #kubeconfig: string;

  constructor(program: string, kubeconfig: string) {
    this.#program = program;
    this.#kubeconfig = kubeconfig;
  }

  /** Runs `kubectl …`; what it printed. */
  run(
    parameters: readonly string[],
    options: { readonly input?: string; readonly timeoutMs?: number } = {},
  ): Promise<string> {
    return runToEnd(this.#program, ['--kubeconfig', this.#kubeconfig, ...parameters], {
      timeoutMs: 120_000,
      ...options,
    });
  }
}
