import * as grpc from '@grpc/grpc-js';
import { decode, encode, methodsOf } from './contract.ts';
import type { ProbeResponse } from './generated/types.ts';

/** The answer of a driver to Probe. */
export type ProbeAnswer =
  /** `problem`: the reason that the driver gives for being unhealthy (I08). */
  | { readonly answered: true; readonly ready: boolean; readonly problem: string | undefined }
  /** The driver cannot be reached, or takes too long. */
  | { readonly answered: false; readonly problem: string };

/** Codes that come from this side of the connection. */
const unanswered: ReadonlySet<grpc.status> = new Set([
  grpc.status.UNAVAILABLE,
  grpc.status.DEADLINE_EXCEEDED,
  grpc.status.CANCELLED,
]);

/** Sends Probe to the driver at a socket, over a new connection: a removed socket is noticed. */
export async function probe(socketPath: string, timeoutMs: number): Promise<ProbeAnswer> {
  const client = new grpc.Client(`unix:${socketPath}`, grpc.credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
    'grpc.enable_channelz': 0,
    'grpc.enable_retries': 0,
  });
  try {
    const response = await call(client, timeoutMs);
    // A missing field means ready (I07).
    return { answered: true, ready: response.ready?.value ?? true, problem: undefined };
  } catch (error) {
    if (!isStatus(error)) throw error;
    if (unanswered.has(error.code)) return { answered: false, problem: error.details };
    return { answered: true, ready: false, problem: error.details };
  } finally {
    client.close();
  }
}

function call(client: grpc.Client, timeoutMs: number): Promise<ProbeResponse> {
  const method = methodsOf('csi.v1.Identity').find(({ name }) => name === 'Probe');
  if (method === undefined) throw new Error('the contract has no Probe');
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      method.path,
      (message: object) => encode(method.requestType, message),
      (bytes: Buffer) => decode<ProbeResponse>(method.responseType, bytes),
      {},
      { deadline: Date.now() + timeoutMs },
      (error, response) => {
        if (response === undefined) reject(error);
        else resolve(response);
      },
    );
  });
}

function isStatus(error: unknown): error is grpc.ServiceError {
  return error instanceof Error && 'code' in error && 'details' in error;
}
