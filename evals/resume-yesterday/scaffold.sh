. "${0%/*}/../scaffold.sh"
state begun
