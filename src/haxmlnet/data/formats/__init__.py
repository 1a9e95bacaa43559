"""The formats of documents: one file each, which shows the format, reads it and writes it. `registry` lists them.

    jsonl.py          JSON lines               parallel.py   texts and labels in two files (AttentionXML)
    csv_tsv.py        CSV and TSV              xc_raw.py     raw texts of the Extreme Classification Repository
    plain_text.py     a text a line            xc_sparse.py  its sparse files, older and newer, and svmlight
    parquet.py        Parquet                  pecos.py      texts or features with a matrix of labels
    huggingface.py    directories of datasets  fasttext.py   fastText
    annif.py          Annif's three formats    libmultilabel.py  LibMultiLabel

What they share: an input file as lines (`source`), fields to a document (`fields`), lines (`lines`), rows of Arrow
tables (`arrow_rows`), sparse rows (`sparse_rows`) and matrices (`npz_matrices`), names of labels (`label_name_files`).
`recognition` tells the format of a file, and finds the file of a directory.
"""
