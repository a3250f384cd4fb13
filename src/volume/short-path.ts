/** A pod's directory is shortened to the pod; the message names the volume elsewhere. */
const podDirectory = /\/pods\/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\//;
/** Kubernetes names staging directories by SHA-256. */
const longHash = /([0-9a-f]{8})[0-9a-f]{56}/;
const longestCharacters = 56;

/** Shortens a path for a message: paths of Kubernetes are too long to read. */
export function shortPath(path: string): string {
  const pod = podDirectory.exec(path)?.[0];
  if (pod !== undefined && path.length > longestCharacters) return `…${pod}…`;
  const short = path.replace(longHash, '$1…');
  // The end of a path says more than its beginning.
  return short.length <= longestCharacters ? short : `…${short.slice(1 - longestCharacters)}`;
}
