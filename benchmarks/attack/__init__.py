"""The attack on the certificate: random problems, evaluated independently of the library's own machinery."""
