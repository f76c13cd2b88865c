. "${0%/*}/../scaffold.sh"
state asked
