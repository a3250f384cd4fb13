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
 * After how long a class has its released volumes forgotten when their node is gone; undefined: never. So is what a class
 * says that is not there, not of this driver, or wrong.
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

/** Whether a Node of this name is there. That it is not only Kubernetes itself can say. @throws Unavailable */
export async function isNodeThere(api: KubernetesApi, name: string): Promise<boolean> {
  try {
    await api.call({ path: `/api/v1/nodes/${encodeURIComponent(name)}`, what: 'show a node' });
    return true;
  } catch (error) {
    if (error instanceof ApiRefusal && error.status === notFound && error.reason === 'NotFound') return false;
    throw error;
  }
}
