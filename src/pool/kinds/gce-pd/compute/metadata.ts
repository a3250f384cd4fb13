import { Unavailable } from '../../../../volume/errors.ts';
import { sendHttp } from '../../../cloud-disk/http.ts';

/** An address, not a name: it works without DNS, and GKE answers there for the account of a pod. */
const usualHost = '169.254.169.254';
/** It is one hop away. */
const timeoutMs = 2_000;

/** The metadata service of the machine, or GKE's in its place. */
export class GceMetadata {
  readonly #base: URL;

  /** @param host GCE_METADATA_HOST, as Google's libraries read it */
  constructor(host: string | undefined) {
    this.#base = new URL(`http://${host || usualHost}/computeMetadata/v1/`);
  }

  /** @returns undefined: there is no such entry @throws NoAnswer, Unavailable */
  async get(path: string): Promise<string | undefined> {
    const headers = { 'metadata-flavor': 'Google' };
    const url = new URL(path, this.#base);
    const answer = await sendHttp({ method: 'GET', url, headers, timeoutMs });
    // Other clouds have a service at the same address.
    if (answer.headers['metadata-flavor'] !== 'Google') {
      throw new Unavailable(`${url.host} is not the metadata service of Google: is this a machine of Google?`);
    }
    if (answer.status === 200) return answer.text.trim();
    if (answer.status === 404) return undefined;
    throw new Unavailable(`the metadata service answered ${answer.status} to ${path}`);
  }

  /** @throws Unavailable if there is no such entry */
  async require(path: string): Promise<string> {
    const found = await this.get(path);
    if (found !== undefined && found !== '') return found;
    throw new Unavailable(`the metadata service has no ${path}`);
  }
}
