import { z } from 'zod';
import { parseForgetting } from '../../controller/volumes/parameters.ts';
import { InvalidArgument } from '../../volume/errors.ts';
import { readAnswer } from './answer.ts';
import { ApiRefusal, type KubernetesApi } from './api.ts';

const storageClass = z.object({
  provisioner: z.string(),
  parameters: z.record(z.string(), z.string()).nullish(),
});

const notFound = 404;

/**
 * The time after which a class lets released volumes of a missing node be forgotten; undefined: never, also for a class
 * that is missing, invalid, or of another driver.
 * @throws Unavailable
 */
export async function forgetSecondsOf(
  api: KubernetesApi,
  driverName: string,
  className: string,
): Promise<number | undefined> {
  const what = 'show a StorageClass';
  try {
    const path = `/apis/storage.k8s.io/v1/storageclasses/${encodeURIComponent(className)}`;
    const { parameters, provisioner } = readAnswer(storageClass, await api.call({ path, what }), what);
    return provisioner === driverName ? parseForgetting(parameters ?? {}) : undefined;
  } catch (error) {
    if (error instanceof InvalidArgument) return undefined;
    if (error instanceof ApiRefusal && error.status === notFound) return undefined;
    throw error;
  }
}

/** Answers if a Node of this name exists. Only Kubernetes itself can deny it. @throws Unavailable */
export async function isNodeThere(api: KubernetesApi, name: string): Promise<boolean> {
  try {
    await api.call({ path: `/api/v1/nodes/${encodeURIComponent(name)}`, what: 'show a node' });
    return true;
  } catch (error) {
    if (error instanceof ApiRefusal && error.status === notFound && error.reason === 'NotFound') return false;
    throw error;
  }
}
