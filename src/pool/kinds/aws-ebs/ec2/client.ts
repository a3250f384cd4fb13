import { AwsV4Signer } from 'aws4fetch';
import { Unavailable } from '../../../../volume/errors.ts';
import { sendHttp } from '../../../cloud-disk/http.ts';
import { OutcomeUnknown, sendRepeatedly } from '../../../cloud-disk/repeat.ts';
import type { CredentialSource } from './credentials.ts';
import { child, NotXml, parseXml, textOf, type XmlElement } from './xml.ts';

/** EC2 has refused a request; by its code the caller knows what to do. */
export class Ec2Refusal extends Unavailable {
  /** `InvalidVolume.NotFound`. */
  readonly errorCode: string;

  constructor(action: string, errorCode: string, message: string) {
    super(`AWS refused ${action} (${errorCode}): ${message.slice(0, 160)}`);
    this.errorCode = errorCode;
  }
}

export interface Ec2ClientOptions {
  readonly endpoint: URL;
  readonly region: string;
  readonly credentials: CredentialSource;
  readonly timeoutMs: number;
  /** The pauses before a request that EC2 had no time for is sent again. */
  readonly pausesMs: readonly number[];
}

/** The values of a request: a list has `Filter.1.Name`, `Filter.1.Value.1`. */
export type Ec2Values = Readonly<Record<string, string | undefined>>;

const throttled = new Set([
  'RequestLimitExceeded',
  'Throttling',
  'ThrottlingException',
  'RequestThrottled',
  'EC2ThrottledException',
]);
const expired = new Set([
  'ExpiredToken',
  'ExpiredTokenException',
  'RequestExpired',
  'AuthFailure',
  'InvalidClientTokenId',
]);

/**
 * The few requests that a home has for EC2, in its query protocol (API version 2016-11-15). Its SDK adds 2.3 MiB to the bundle and
 * 70 MiB to the memory of the home (docs/dependencies.md).
 */
export class Ec2Client {
  readonly #options: Ec2ClientOptions;

  constructor(options: Ec2ClientOptions) {
    this.#options = options;
  }

  /**
   * @param isRepeatable the request does no more when it arrives twice
   * @throws Ec2Refusal, OutcomeUnknown, Unavailable
   */
  async call(action: string, values: Ec2Values, isRepeatable: boolean): Promise<XmlElement> {
    return await sendRepeatedly({
      ...{ cloud: 'AWS', action, isRepeatable, pausesMs: this.#options.pausesMs },
      send: () => this.#send(action, values),
      isThrottled: (error) => error instanceof Ec2Refusal && throttled.has(error.errorCode),
      isExpired: (error) => error instanceof Ec2Refusal && expired.has(error.errorCode),
      forgetCredentials: () => this.#options.credentials.forget(),
    });
  }

  /** All pages of a list. */
  async *pages(action: string, values: Ec2Values): AsyncGenerator<XmlElement, void, void> {
    let token: string | undefined;
    do {
      const page = await this.call(action, { ...values, MaxResults: '500', NextToken: token }, true);
      yield page;
      token = textOf(page, 'nextToken') || undefined;
    } while (token !== undefined);
  }

  async #send(action: string, values: Ec2Values): Promise<XmlElement> {
    const { credentials, endpoint, region, timeoutMs } = this.#options;
    const given = Object.entries(values).filter((each): each is [string, string] => each[1] !== undefined);
    const body = new URLSearchParams([['Action', action], ['Version', '2016-11-15'], ...given]).toString();
    const { accessKeyId, secretAccessKey, sessionToken } = await credentials.get();
    const signer = new AwsV4Signer({
      ...{ method: 'POST', url: endpoint.href, body, accessKeyId, secretAccessKey, service: 'ec2', region },
      ...(sessionToken === undefined ? {} : { sessionToken }),
      headers: { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' },
      allHeaders: true,
    });
    const signed = await signer.sign();
    const headers = Object.fromEntries(signed.headers);
    const { status, text } = await sendHttp({ method: 'POST', url: signed.url, headers, body, timeoutMs });
    return readAnswer(action, status, text);
  }
}

function readAnswer(action: string, status: number, text: string): XmlElement {
  const answer = xmlIn(text);
  if (answer === undefined || (status !== 200 && answer.name !== 'Response')) {
    // A proxy's, or a server's that broke down over the request.
    throw new OutcomeUnknown(`AWS answered ${action} with ${status}, and nothing that can be read.`);
  }
  if (status === 200) return answer;
  const errors = child(answer, 'Errors');
  const error = errors && child(errors, 'Error');
  const code = error === undefined ? '' : textOf(error, 'Code');
  if (code === '' || (status >= 500 && !throttled.has(code))) {
    throw new OutcomeUnknown(`AWS answered ${action} with ${status} ${code}, and may have done it.`);
  }
  throw new Ec2Refusal(action, code, error === undefined ? '' : textOf(error, 'Message'));
}

function xmlIn(text: string): XmlElement | undefined {
  try {
    return parseXml(text);
  } catch (error) {
    if (error instanceof NotXml) return undefined;
    throw error;
  }
}
