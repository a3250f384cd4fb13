export interface CloneEnd {
  /** Whether nothing writes to the source until it is done. Else the clone must be of one instant by itself. */
  readonly isAtRest: boolean;
  /** Aborted when nobody wants the clone any more. */
  readonly signal?: AbortSignal | undefined;
}

/** A clone of an image, on its way. The caller syncs it. */
export interface ImageClone {
  /** Does what can be done while the source is written to. Done again, it does anew what has changed meanwhile. */
  goAhead(signal?: AbortSignal): Promise<void>;
  /** The source's content as it is now. */
  complete(end: CloneEnd): Promise<void>;
}
