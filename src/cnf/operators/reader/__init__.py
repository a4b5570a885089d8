"""The inside of the LaTeX reader: tokens -> grammar -> semantics; its public face is `cnf.operators.latex`."""
