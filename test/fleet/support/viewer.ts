import { request } from 'node:https';
import { serverName } from '../../../src/fleet/tls/material.ts';
import type { ApiDouble } from './api-double.ts';
import { viewAudience } from './api-double.ts';
import type { ControllerProcess } from './controller-process.ts';
import { authorityIn } from './fleet.ts';

/** With these a controller serves the view, at a port that it logs. */
export const viewed = { HOLDFAST_VIEW_ADDRESS: '127.0.0.1:0' } as const;

export interface Seen {
  readonly status: number;
  /** What a command would print. */
  readonly result: string;
  readonly problems: string;
  /** undefined: the answer is not whole. */
  readonly exitCode: number | undefined;
}

export interface Asking {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Whoever looks at the fleet, of that name. */
export class Viewer {
  readonly #api: ApiDouble;
  readonly token: string;

  constructor(api: ApiDouble, user: string, lists: readonly string[]) {
    this.#api = api;
    this.token = api.token({ user, audience: viewAudience });
    for (const list of lists) api.known.viewers.add(`${user} ${list}`);
  }

  see(controller: ControllerProcess, path: string): Promise<Seen> {
    return ask(this.#api, controller, path, { headers: { 'x-holdfast-token': this.token } });
  }

  post(controller: ControllerProcess, path: string): Promise<Seen> {
    return ask(this.#api, controller, path, { method: 'POST', headers: { 'x-holdfast-token': this.token } });
  }
}

export async function ask(api: ApiDouble, controller: ControllerProcess, path: string, asking: Asking): Promise<Seen> {
  const { port } = await controller.logged('listening for viewers of the fleet');
  const place = { host: '127.0.0.1', port: Number(port), path, servername: serverName, agent: false as const };
  return new Promise((resolve, reject) => {
    const outgoing = request({ ...place, ca: authorityIn(api), ...asking }, async (response) => {
      try {
        let text = '';
        for await (const chunk of response.setEncoding('utf8')) text += chunk;
        resolve(seen(response.statusCode ?? 0, text));
      } catch (error) {
        reject(error);
      }
    });
    outgoing.on('error', reject);
    outgoing.end();
  });
}

function seen(status: number, text: string): Seen {
  const lines = text.split('\n');
  const marked = (mark: string) => lines.filter((line) => line.startsWith(mark)).map((line) => line.slice(1));
  const [exitCode] = marked('x');
  return {
    status,
    result: marked('1').join('\n'),
    problems: marked('2').join('\n'),
    exitCode: exitCode === undefined ? undefined : Number(exitCode),
  };
}
