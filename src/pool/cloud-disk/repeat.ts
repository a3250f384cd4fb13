import { setTimeout as delay } from 'node:timers/promises';
import { Unavailable } from '../../volume/errors.ts';
import { NoAnswer } from './http.ts';

/** The request may have been carried out: its answer was lost. */
export class OutcomeUnknown extends Unavailable {}

/** A request to the API of a cloud. */
export interface CloudRequest<T> {
  /** For messages: `AWS`. */
  readonly cloud: string;
  /** For messages: `CreateVolume`. */
  readonly action: string;
  /** The pauses before a request that the cloud had no time for is sent again. */
  readonly pausesMs: readonly number[];
  /** The request does no more when it arrives twice. */
  readonly isRepeatable: boolean;
  send(): Promise<T>;
  /** The cloud has done nothing, and will later. */
  isThrottled(error: unknown): boolean;
  /** The cloud has refused the credentials. */
  isExpired(error: unknown): boolean;
  /** Has the next request find other credentials. */
  forgetCredentials(): void;
}

/** Sends a request, again where that is safe. @throws OutcomeUnknown, Unavailable, what `send` throws */
export async function sendRepeatedly<T>(request: CloudRequest<T>): Promise<T> {
  const { action, cloud } = request;
  let hasNewCredentials = false;
  const pausesMs = request.pausesMs.values();
  for (;;) {
    try {
      return await request.send();
    } catch (error) {
      if (request.isExpired(error) && !hasNewCredentials) {
        hasNewCredentials = true;
        request.forgetCredentials();
        continue;
      }
      const isSafe = request.isThrottled(error) || (error instanceof NoAnswer && error.isRefused);
      const isUnknown = error instanceof NoAnswer && !error.isRefused;
      const again = isSafe || ((isUnknown || error instanceof OutcomeUnknown) && request.isRepeatable);
      const pauseMs = again ? pausesMs.next().value : undefined;
      if (pauseMs !== undefined) {
        // Calls that were refused together do not come back together.
        await delay(pauseMs * (0.5 + Math.random()));
        continue;
      }
      if (isUnknown) {
        throw new OutcomeUnknown(`${cloud} gave no answer to ${action}, and may have done it: ${error.message}.`);
      }
      if (error instanceof NoAnswer)
        throw new Unavailable(`${cloud} cannot be reached for ${action}: ${error.message}.`);
      throw error;
    }
  }
}
