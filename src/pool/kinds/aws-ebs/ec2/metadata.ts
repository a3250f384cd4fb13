import { Unavailable } from '../../../../volume/errors.ts';
import { sendHttp } from '../../../cloud-disk/http.ts';

const usualEndpoint = 'http://169.254.169.254';
/** It is one hop away; in a pod whose hop limit is 1 no answer comes at all. */
const timeoutMs = 2_000;
const tokenSeconds = 21_600;

/** The metadata service of the machine, in version 2: each request has a token, which a page in a browser cannot get. */
export class InstanceMetadata {
  readonly #endpoint: URL;
  #token: { readonly text: string; readonly endsMs: number } | undefined;

  /** @param endpoint AWS_EC2_METADATA_SERVICE_ENDPOINT */
  constructor(endpoint: string | undefined) {
    this.#endpoint = new URL(endpoint || usualEndpoint);
  }

  /** @returns undefined: there is no such entry @throws NoAnswer, Unavailable */
  async get(path: string): Promise<string | undefined> {
    const token = await this.#newToken();
    const url = new URL(`/latest/${path}`, this.#endpoint);
    const headers = { 'x-aws-ec2-metadata-token': token };
    const { status, text } = await sendHttp({ method: 'GET', url, headers, timeoutMs });
    if (status === 200) return text.trim();
    if (status === 404) return undefined;
    this.#token = undefined;
    throw new Unavailable(`the metadata service answered ${status} to ${path}`);
  }

  /** @throws Unavailable if there is no such entry */
  async require(path: string): Promise<string> {
    const found = await this.get(path);
    if (found !== undefined && found !== '') return found;
    throw new Unavailable(`the metadata service has no ${path}: is this a machine of AWS?`);
  }

  async #newToken(): Promise<string> {
    if (this.#token !== undefined && Date.now() < this.#token.endsMs) return this.#token.text;
    const url = new URL('/latest/api/token', this.#endpoint);
    const headers = { 'x-aws-ec2-metadata-token-ttl-seconds': `${tokenSeconds}` };
    const { status, text } = await sendHttp({ method: 'PUT', url, headers, timeoutMs });
    if (status !== 200) throw new Unavailable(`the metadata service gives no token (${status}): is IMDSv2 on?`);
    this.#token = { text, endsMs: Date.now() + (tokenSeconds * 1000) / 2 };
    return text;
  }
}
