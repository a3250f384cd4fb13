import { z } from 'zod';
import { isSame, type Material, materialFor } from '../tls/material.ts';
import { readAnswer } from './answer.ts';
import { ApiRefusal, type KubernetesApi } from './api.ts';

const secret = z.object({
  metadata: z.object({ resourceVersion: z.string().optional() }).loose(),
  data: z.record(z.string(), z.string()).nullish(),
});

const notFound = 404;
const conflict = 409;

/** Who comes second reads what the first wrote; more than a few turns mean that something else writes there. */
const mostTurns = 5;

export interface SecretPlace {
  readonly namespace: string;
  readonly name: string;
}

export function secretPath(place: SecretPlace): string {
  return `${secretsPath(place)}/${encodeURIComponent(place.name)}`;
}

function secretsPath({ namespace }: SecretPlace): string {
  return `/api/v1/namespaces/${encodeURIComponent(namespace)}/secrets`;
}

/**
 * Brings the Secret to what it should hold now, and returns that. Several replicas may do so at a time.
 * @throws Unavailable
 */
export async function keepMaterial(api: KubernetesApi, place: SecretPlace, now = new Date()): Promise<Material> {
  const { name, namespace } = place;
  const path = secretPath(place);
  for (let turn = 1; ; turn++) {
    const found = await read(api, path);
    const wanted = materialFor(found?.material, now);
    if (isSame(found?.material, wanted)) return wanted;
    const body = {
      apiVersion: 'v1',
      kind: 'Secret',
      type: 'Opaque',
      ...found?.object,
      metadata: { ...found?.object.metadata, name, namespace },
      data: { ...found?.object.data, ...encoded(wanted) },
    };
    try {
      if (found === undefined)
        await api.call({ method: 'POST', path: secretsPath(place), body, what: `make Secret ${name}` });
      else await api.call({ method: 'PUT', path, body, what: `change Secret ${name}` });
      return wanted;
    } catch (error) {
      if (!(error instanceof ApiRefusal && error.status === conflict) || turn >= mostTurns) throw error;
    }
  }
}

async function read(api: KubernetesApi, path: string) {
  try {
    const what = 'show a Secret';
    const object = readAnswer(secret.loose(), await api.call({ path, what }), what);
    const material = Object.entries(object.data ?? {}).map(([key, text]) => [
      key,
      Buffer.from(text, 'base64').toString(),
    ]);
    // Whatever is in it is looked at before it is used.
    return { object, material: Object.fromEntries(material) as Partial<Material> };
  } catch (error) {
    if (error instanceof ApiRefusal && error.status === notFound) return undefined;
    throw error;
  }
}

function encoded(material: Material): Record<string, string> {
  return Object.fromEntries(Object.entries(material).map(([key, text]) => [key, Buffer.from(text).toString('base64')]));
}
